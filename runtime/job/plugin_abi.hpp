// What a plugin exports. A plugin is a shared library built against the installed package; it adds
// rows to the host's tables.
//
//   extern "C" std::uint32_t troupe_abi_version() { return troupe::abi_version; }
//   extern "C" void register_plugin(troupe::tables& t) { t.layers.add(...); }
//
// Both are declared here so that a wrong signature does not compile.
#pragma once

#include <cstdint>

#include "runtime/job/tables.hpp"

namespace troupe {

// Grows whenever a type a plugin sees changes its layout or meaning.
inline constexpr std::uint32_t abi_version = 12;

}  // namespace troupe

extern "C" {
std::uint32_t troupe_abi_version();
void register_plugin(troupe::tables& t);
}
