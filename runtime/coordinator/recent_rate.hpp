// Examples per second over the last few seconds of training. (The rate of a single step varies by a
// factor of ten where steps complete in bursts.)
//
//   rate = sum of examples / sum of seconds, over the newest steps that sum to `window` seconds
//
// Time that is not passed to add() (pauses, evaluations) does not count. Memory is bounded:
// consecutive steps share an entry while they sum to at most a fiftieth of the window.
#pragma once

#include <cstddef>
#include <deque>

namespace troupe {

class recent_rate {
 public:
  static constexpr double window = 5;  // seconds

  // Adds a step of `examples` examples that took `seconds`. Returns the rate; 0 if no time has
  // passed.
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
