// Numbers that environment variables set for tests: how many seeds, rounds or messages, and which
// seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace troupe {

inline std::uint64_t from_environment(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace troupe
