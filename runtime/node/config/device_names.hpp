// The keys `devices` and `tflops`, which job and cluster files share.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/keys.hpp"
#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// Reports invalid device names, duplicates and an empty list. Returns the position of each name.
// The devices may be those of other machines.
std::vector<source_position> check_devices(table_reader& r, const std::vector<std::string>& devices);

// Reports a list of speeds that does not have one number for each device.
void check_speeds(table_reader& r, const std::vector<double>& tflops, std::size_t devices);

// Reads `tflops` of a job or node, after its `devices`.
template <class S>
void read_speeds(table_reader& r, const keys<S>& k, S& into) {
  double one = 0;
  if (!k.read_into(r, "tflops", one, into.tflops)) return;
  if (into.tflops.empty()) into.tflops = {one};
  check_speeds(r, into.tflops, into.devices.size());
}

// Reports the devices that this process cannot use, each at its position.
diagnostics unusable_devices(const std::vector<std::string>& devices, const std::vector<source_position>& at);

}  // namespace troupe
