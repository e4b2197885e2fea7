// Environment variables that set numbers of tests: seeds, rounds or messages.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe {

inline std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace troupe
