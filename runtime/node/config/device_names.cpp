#include "runtime/node/config/device_names.hpp"

#include <algorithm>
#include <set>

#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

std::vector<source_position> check_devices(table_reader& r, const std::vector<std::string>& devices) {
  if (devices.empty()) r.error("devices", "the list of devices is empty");
  std::vector<source_position> at;
  std::set<std::string> seen;
  const auto* value = r.take("devices");
  const auto* list = value ? value->array() : nullptr;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    at.push_back(list && i < list->size() ? (*list)[i].at : r.at("devices"));
    const auto word = parse_device(devices[i]);
    const auto& known = device_descriptors();
    const auto is_known = [&](const device_descriptor& d) { return d.kind == word.kind; };
    if (std::none_of(known.begin(), known.end(), is_known) || word.number < 0)
      r.error_at(at.back(), "bad device " + in_quotes(devices[i]) + ": write \"cpu:0\" or \"gpu:0\"");
    else if (!seen.insert(devices[i]).second)
      r.error_at(at.back(), "the device " + in_quotes(devices[i]) + " is listed twice");
  }
  return at;
}

void check_speeds(table_reader& r, const std::vector<double>& tflops, std::size_t devices) {
  if (tflops.size() != devices)
    r.error("tflops", std::to_string(tflops.size()) + (tflops.size() == 1 ? " number" : " numbers") + " for " +
                          std::to_string(devices) + (devices == 1 ? " device" : " devices") +
                          ": 'tflops' needs one for each device");
}

diagnostics unusable_devices(const std::vector<std::string>& devices, const std::vector<source_position>& at) {
  diagnostics found;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (const auto why = why_unusable(devices, i); !why.empty())
      found.push_back(
          {i < at.size() ? at[i] : source_position{}, "the device " + in_quotes(devices[i]) + " cannot be used: " + why});
  return found;
}

}  // namespace troupe
