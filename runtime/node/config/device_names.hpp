// The `devices` key, which job and cluster files share: "cpu:0", "cpu:1".
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// Reports invalid device names, devices that this build or machine does not support, duplicates,
// and an empty list.
void check_devices(table_reader& r, const std::vector<std::string>& devices);

}  // namespace troupe
