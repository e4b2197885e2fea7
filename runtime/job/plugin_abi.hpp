// The functions that a plugin exports. A plugin is a shared library built against the installed
// package. It adds entries to the tables of the program that loads it.
//
//   extern "C" std::uint32_t troupe_abi_version() { return troupe::abi_version; }
//   extern "C" void register_plugin(troupe::tables& t) { t.layers.add(...); }
//
// Both are declared here so that a wrong signature does not compile.
#pragma once

#include <cstdint>

#include "runtime/job/tables.hpp"

namespace troupe {

// Raised with every change of the layout or meaning of a type that plugins use.
// 24: without messages, fields and functions for restarted roles (worker_sync, shard_sync).
inline constexpr std::uint32_t abi_version = 24;

}  // namespace troupe

extern "C" {
std::uint32_t troupe_abi_version();
void register_plugin(troupe::tables& t);
}
