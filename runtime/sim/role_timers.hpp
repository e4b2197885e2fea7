// The timers that a role has set. Every setting has a number, which distinguishes the event of the
// current setting from those of cancelled or replaced ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sim {

class role_timers {
 public:
  // Returns the number of the setting, which replaces an earlier setting of this timer.
  std::uint64_t set(std::uint64_t timer) {
    cancel(timer);
    set_.emplace_back(timer, ++settings_);
    return settings_;
  }
  void cancel(std::uint64_t timer) {
    std::erase_if(set_, [&](const auto& s) { return s.first == timer; });
  }
  // Returns false if the setting has been cancelled or replaced.
  bool fire(std::uint64_t timer, std::uint64_t number) {
    const auto at = std::find(set_.begin(), set_.end(), std::pair(timer, number));
    if (at == set_.end()) return false;
    set_.erase(at);
    return true;
  }
  void clear() { set_.clear(); }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> set_;  // timer, number
  std::uint64_t settings_ = 0;
};

}  // namespace troupe::sim
