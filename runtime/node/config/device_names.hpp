// The `devices` key, which job and cluster files share: "cpu:0", "cpu:1".
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// Reports words that name no device, devices that no backend of jobs drives (gpu), names that come
// twice, and an empty list.
void check_devices(table_reader& r, const std::vector<std::string>& devices);

}  // namespace troupe
