#include "runtime/node/config/device_names.hpp"

#include <algorithm>
#include <set>

#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

void check_devices(table_reader& r, const std::vector<std::string>& devices) {
  if (devices.empty()) r.error("devices", "the list of devices is empty");
  std::set<std::string> seen;
  const auto* value = r.take("devices");
  const auto* list = value ? value->array() : nullptr;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& d = devices[i];
    const auto word = parse_device(d);
    const auto& entries = device_descriptors();
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const device_descriptor& x) { return x.kind == word.kind; });
    if (entry == entries.end() || word.number < 0)
      r.error("devices", "bad device " + in_quotes(d) + ": write \"cpu:0\"");
    else if (const auto why = entry->why_not(); !why.empty())
      r.error_at(list && i < list->size() ? (*list)[i].at : r.at("devices"),
                 "the device " + in_quotes(d) + " cannot be used: " + why + "; available: cpu:0, cpu:1, ...");
    else if (!seen.insert(d).second)
      r.error("devices", "the device " + in_quotes(d) + " is listed twice");
  }
}

}  // namespace troupe
