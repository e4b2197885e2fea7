// How large a message between nodes may be.
#pragma once

#include <cstddef>

namespace troupe {

// All of its bytes (wire.hpp). Whoever makes larger things of smaller ones (plan/plan_blocks.cpp)
// leaves wire_overhead for what is not elements.
constexpr std::size_t wire_max_message = std::size_t{1} << 30;
constexpr std::size_t wire_overhead = std::size_t{64} << 10;

}  // namespace troupe
