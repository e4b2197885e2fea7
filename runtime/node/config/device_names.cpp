#include "runtime/node/config/device_names.hpp"

#include <algorithm>
#include <set>

#include "runtime/graph/wording.hpp"

namespace troupe {

void check_devices(table_reader& r, const std::vector<std::string>& devices) {
  if (devices.empty()) r.error("devices", "an empty list of devices");
  std::set<std::string> seen;
  const auto* value = r.take("devices");
  const auto* list = value ? value->array() : nullptr;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& d = devices[i];
    const auto number = d.size() > 4 ? d.substr(4) : std::string();
    const auto digit = [](unsigned char c) { return c >= '0' && c <= '9'; };
    const bool named = d.compare(0, 4, "cpu:") == 0 || d.compare(0, 4, "gpu:") == 0;
    if (!named || number.empty() || number.size() > 4 || !std::all_of(number.begin(), number.end(), digit))
      r.error("devices", "bad device " + in_quotes(d) + ": write \"cpu:0\"");
    else if (d.starts_with("gpu:"))
      r.error_at(
          list && i < list->size() ? (*list)[i].at : r.at("devices"),
          "the device " + in_quotes(d) + " cannot be used: this build has no GPU backend for jobs; there is: cpu:0, cpu:1, ...");
    else if (!seen.insert(d).second)
      r.error("devices", "the device " + in_quotes(d) + " is there twice");
  }
}

}  // namespace troupe
