// Reasons for which a role ignores a message, and counts of them. Every role counts the messages
// that it ignores (role::drop in runtime/role.hpp); hosts publish the counts in role_status.
//
// The first four reasons occur in a healthy cluster, because failing networks repeat and delay
// messages. The others are mistakes: the sender runs other code or another plan, or
// violates the protocol. The simulator ends a run in which a mistake occurs, unless
// sim::world_config::allow_mistakes is set.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

namespace troupe {

enum class drop_reason : std::uint8_t {
  repeated,      // a duplicate: its content has been taken already
  outdated,      // of a step, version, round, mode epoch or plan that is over
  unrequested,   // an answer without an open request: the request was answered
  quiesced,      // training has stopped after a node failure
  misaddressed,  // a source, port, block or worker that the plan does not have here
  malformed,     // an invalid shape, type or value
  unexpected,    // a message that this role does not handle, or not in its present state
};
constexpr std::size_t drop_reasons = 7;

const char* name_of(drop_reason r);  // as in JSON and logs, e.g. "repeated"
constexpr bool is_mistake(drop_reason r) { return r >= drop_reason::misaddressed; }

struct drop_counts {
  std::array<std::uint64_t, drop_reasons> by_reason{};

  std::uint64_t& operator[](drop_reason r) { return by_reason[static_cast<std::size_t>(r)]; }
  std::uint64_t operator[](drop_reason r) const { return by_reason[static_cast<std::size_t>(r)]; }
  std::uint64_t total() const { return std::accumulate(by_reason.begin(), by_reason.end(), std::uint64_t{0}); }
  std::uint64_t mistakes() const {
    return std::accumulate(by_reason.begin() + static_cast<std::ptrdiff_t>(drop_reason::misaddressed), by_reason.end(),
                           std::uint64_t{0});
  }
  drop_counts& operator+=(const drop_counts& o) {
    for (std::size_t i = 0; i < drop_reasons; ++i) by_reason[i] += o.by_reason[i];
    return *this;
  }
  friend bool operator==(const drop_counts&, const drop_counts&) = default;
};

// The mistakes alone: "2 malformed, 1 unexpected". Empty if there are none.
std::string mistakes_text(const drop_counts& d);

}  // namespace troupe
