// Examples a second over the last few seconds of training: one step's rate jumps by a factor of ten
// where steps complete in bursts.
//
//   rate = sum of examples / sum of seconds, over the newest steps that took `window` seconds together
//
// Time that is not given (pauses, evaluations) does not count. Memory is bounded: steps that take
// at most a fiftieth of the window together share an entry.
#pragma once

#include <cstddef>
#include <deque>

namespace troupe {

class recent_rate {
 public:
  static constexpr double window = 5;  // seconds

  // A step of so many examples, so long after the one before it. Returns the rate, 0 when no time
  // has passed.
  double add(double examples, double seconds) {
    if (parts_.empty() || parts_.back().seconds + seconds > window / 50) parts_.push_back({});
    parts_.back().examples += examples;
    parts_.back().seconds += seconds;
    part all;
    for (const auto& p : parts_) {
      all.examples += p.examples;
      all.seconds += p.seconds;
    }
    while (parts_.size() > 1 && all.seconds - parts_.front().seconds >= window) {
      all.examples -= parts_.front().examples;
      all.seconds -= parts_.front().seconds;
      parts_.pop_front();
    }
    return all.seconds > 0 ? all.examples / all.seconds : 0;
  }
  std::size_t entries() const { return parts_.size(); }

 private:
  struct part {
    double examples = 0, seconds = 0;
  };
  std::deque<part> parts_;  // oldest first
};

}  // namespace troupe
