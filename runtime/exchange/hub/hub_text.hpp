// Formats names, ranks and shapes for the hub's messages.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/wording.hpp"
#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

inline std::string quoted(const std::string& s) { return in_quotes(s); }

inline std::string rank_text(std::uint32_t r) { return "rank " + std::to_string(r); }

inline std::string shape_text(std::uint64_t count, element e) {
  constexpr const char* names[elements] = {" float32", " float64", " bfloat16", " int32", " int64"};
  return std::to_string(count) + names[static_cast<std::uint8_t>(e)];
}

}  // namespace troupe::exchange
