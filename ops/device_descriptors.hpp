// Devices by name, as job and cluster files have them in `devices`: "cpu:0", "gpu:1". One row a
// backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/device.hpp"

namespace troupe {

struct device_descriptor {
  std::string kind;                    // the word before the colon
  bool alike = true;                   // its numbers are threads of one device, over one memory
  std::string (*why_not)() = nullptr;  // why jobs cannot have one here; empty: they can
  std::shared_ptr<device> (*make)(int number) = nullptr;
};
const std::vector<device_descriptor>& device_descriptors();

struct device_word {
  std::string kind;
  int number = -1;  // -1: the word names no device
};
device_word parse_device(std::string_view word);

// Of a node's list, the entries that are devices of their own: "cpu:0", "cpu:1", "gpu:0" are two,
// of index 0 and 2.
std::vector<std::uint32_t> different_devices(const std::vector<std::string>& list);

// One device for each entry of the list; entries that are not devices of their own share one. Null
// where there is none.
std::vector<std::shared_ptr<device>> make_devices(const std::vector<std::string>& list);

// What names the bits of all of them: the different numerics ids, in the order of the list.
std::string numerics_of(const std::vector<std::shared_ptr<device>>& list);

}  // namespace troupe
