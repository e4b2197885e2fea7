// Limits of messages between nodes.
#pragma once

#include <cstddef>

namespace troupe {

// Maximum bytes of an encoded message (wire.hpp). The planner (plan/plan_blocks.cpp) cuts blocks so
// that the elements leave wire_overhead bytes for the header and the fields.
constexpr std::size_t wire_max_message = std::size_t{1} << 30;
constexpr std::size_t wire_overhead = std::size_t{64} << 10;

}  // namespace troupe
