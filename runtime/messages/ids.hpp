// Strong types for the numbers in messages. The plan assigns the ids of roles; the origin of a
// packet counts the ids of messages.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>

namespace troupe {

enum class role_id : std::uint32_t {};  // index in the plan's list of roles; the same on every node
constexpr role_id no_role{0xffffffffu};
constexpr std::uint32_t index_of(role_id r) { return static_cast<std::uint32_t>(r); }

// Identifies one packet: origin << 32 | counter. Constant along the packet's path
// (docs/ARCHITECTURE.md, "The life of one packet").
enum class msg_id : std::uint64_t {};
constexpr role_id origin_of(msg_id id) { return role_id{static_cast<std::uint32_t>(static_cast<std::uint64_t>(id) >> 32)}; }
constexpr msg_id make_msg_id(role_id origin, std::uint32_t counter) {
  return msg_id{(static_cast<std::uint64_t>(origin) << 32) | counter};
}

// Identifies a command of a user. It is given where the command enters
// (runtime/cluster/view/events.hpp); the event that answers the command carries it. 0: a command of
// the host, which no client waits for.
using command_id = std::uint64_t;

// Time as a role sees it: nanoseconds since the job's start, by the host's clock (real or virtual).
// Never the wall clock.
using duration = std::chrono::nanoseconds;
using time_point = std::chrono::nanoseconds;
constexpr double seconds_of(duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace troupe
