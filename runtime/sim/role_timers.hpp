// The timers that a role has set. Every setting has a number, so that the event of one that has
// been cancelled, or set again, since is known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sim {

class role_timers {
 public:
  // The setting's number; an earlier setting of this timer is over.
  std::uint64_t set(std::uint64_t timer) {
    cancel(timer);
    set_.emplace_back(timer, ++settings_);
    return settings_;
  }
  void cancel(std::uint64_t timer) {
    std::erase_if(set_, [&](const auto& s) { return s.first == timer; });
  }
  // False: it has been cancelled, or set again.
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
