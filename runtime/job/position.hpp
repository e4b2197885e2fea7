// Where a key stands in the job's file. For the files of this folder.
#pragma once

#include <map>
#include <string>

#include "runtime/base/diagnostic.hpp"

namespace troupe {

// Of this very key (position_of would take what it is part of), else `else_at`.
inline source_position position(const std::map<std::string, source_position>& keys, const std::string& key,
                                const source_position& else_at) {
  auto i = keys.find(key);
  return i == keys.end() ? else_at : i->second;
}

}  // namespace troupe
