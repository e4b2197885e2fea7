// A role's timers, and the pending wake-ups for them. Pure: the host of the role requests the
// wake-ups from the clock.
//
// The clock cannot cancel: each wake-up stays in it, with a reference to its actor, until it is
// due. A timer that is set repeatedly therefore reuses a pending wake-up that is at or before its
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

class timers {
 public:
  // Sets a timer, or moves one that is already set.
  void set(std::uint64_t timer, time_point due) {
    const auto i = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& p) { return p.timer == timer; });
    if (i == waiting_.end()) {
      waiting_.push_back({timer, due});
    } else {
      i->due = due;
    }
  }
  void cancel(std::uint64_t timer) {
    std::erase_if(waiting_, [&](const auto& p) { return p.timer == timer; });
  }
  void cancel_all() { waiting_.clear(); }

  // Removes and returns the earliest timer that is due. Nullopt if none is.
  std::optional<std::uint64_t> take_due(time_point now) {
    const auto next = earliest();
    if (next == waiting_.end() || next->due > now) return std::nullopt;
    const auto timer = next->timer;
    waiting_.erase(next);
    return timer;
  }
  std::optional<time_point> next_due() {
    const auto next = earliest();
    return next == waiting_.end() ? std::nullopt : std::optional(next->due);
  }

  // Returns true if the host must request a wake-up at `due`, which then counts as requested.
  bool needs_wake(time_point due) {
    if (!wakes_.empty() && wakes_.back() <= due) return false;
    wakes_.push_back(due);
    return true;
  }
  void woken() {
    if (!wakes_.empty()) wakes_.pop_back();
  }

 private:
  struct pending {
    std::uint64_t timer;
    time_point due;
  };
  std::vector<pending>::iterator earliest() {
    return std::min_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) { return a.due < b.due; });
  }

  std::vector<pending> waiting_;
  std::vector<time_point> wakes_;  // latest first
};

}  // namespace troupe
