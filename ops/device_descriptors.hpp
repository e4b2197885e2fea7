// Devices by name, as in `devices` of job and cluster files: "cpu:0", "gpu:1". One entry per
// backend. A file may name devices of other machines: why_unusable() and make_devices() ask for
// those of this one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/device.hpp"

namespace troupe {

using device_list = std::vector<std::shared_ptr<device>>;

struct device_descriptor {
  std::string kind;   // the word before the colon
  bool alike = true;  // all numbers name the same device; each is one thread of it
  // Why this process cannot use the device; empty: it can.
  std::string (*why_not)(int number) = nullptr;
  std::shared_ptr<device> (*make)(int number) = nullptr;  // throws std::exception
};
const std::vector<device_descriptor>& device_descriptors();

struct device_word {
  std::string kind;
  int number = -1;  // -1: not a valid device name
};
device_word parse_device(std::string_view word);

// Indices of the list's entries that are distinct devices. "cpu:0", "cpu:1", "gpu:0" are two
// devices, with indices 0 and 2.
std::vector<std::uint32_t> different_devices(const std::vector<std::string>& list);

// Index of the list's first entry that is the same device as `name`; nothing if the list does not
// contain `name`.
std::optional<std::uint32_t> listed_device(const std::vector<std::string>& list, const std::string& name);

// Why this process cannot use entry `i` of the list; empty: it can.
std::string why_unusable(const std::vector<std::string>& list, std::size_t i);

// One device for each entry of the list; entries of the same device share one. Throws
// std::runtime_error, with the name and the reason, if this process cannot use one.
device_list make_devices(const std::vector<std::string>& list);

// The distinct numerics ids of the devices, in list order. They identify the bits of the results.
std::string numerics_of(const device_list& list);

}  // namespace troupe
