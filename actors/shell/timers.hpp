// A role's timers, and the wake-ups that a clock holds for them. Pure: whoever hosts the role asks
// the clock.
//
// The clock cannot forget: each wake-up stays there, with a reference to its actor, until it is
// due. So a timer that is set anew again and again uses the wake-up that is there already: one at
// or before it is enough.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

class timers {
 public:
  // A timer that is set already is moved.
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

  // The earliest one whose time has come; it is set no more.
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

  // Whether the clock has to be asked for a wake-up at `due`; if so, it counts as asked for.
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
