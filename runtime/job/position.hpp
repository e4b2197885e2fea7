// Positions of keys in the job file. Internal to this folder.
#pragma once

#include <map>
#include <string>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// Returns the position of exactly this key (position_of() falls back to the enclosing table), or
// `else_at` if the file does not have it.
inline source_position position(const std::map<std::string, source_position>& keys, const std::string& key,
                                const source_position& else_at) {
  auto i = keys.find(key);
  return i == keys.end() ? else_at : i->second;
}

}  // namespace troupe
