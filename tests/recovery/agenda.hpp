// What is to happen in a simulation of daemons, in order of (time, order of entry). The clock is the time of what happens now.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe::recovery {

class agenda {
 public:
  using work = std::function<void()>;

  time_point now() const { return now_; }
  std::uint64_t done() const { return done_; }
  void at(time_point when, work w) { queue_.push({std::max(when, now_), entered_++, std::move(w)}); }
  void in(duration d, work w) { at(now_ + d, std::move(w)); }
  // The next thing; false when there is none.
  bool step() {
    if (queue_.empty()) return false;
    auto next = std::move(const_cast<entry&>(queue_.top()));
    queue_.pop();
    now_ = next.when;
    ++done_;
    next.what();
    return true;
  }

 private:
  struct entry {
    time_point when{};
    std::uint64_t order = 0;
    work what;
    friend bool operator<(const entry& a, const entry& b) { return a.when != b.when ? a.when > b.when : a.order > b.order; }
  };
  std::priority_queue<entry> queue_;
  time_point now_{};
  std::uint64_t entered_ = 0, done_ = 0;
};

}  // namespace troupe::recovery
