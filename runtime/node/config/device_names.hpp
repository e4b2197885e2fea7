// The `devices` key, which job and cluster files share: "cpu:0", "cpu:1".
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// Reports invalid device names, duplicates and an empty list. Returns the position of each name.
// The devices may be those of other machines.
std::vector<source_position> check_devices(table_reader& r, const std::vector<std::string>& devices);

// Reports the devices that this process cannot use, each at its position.
diagnostics unusable_devices(const std::vector<std::string>& devices, const std::vector<source_position>& at);

}  // namespace troupe
