// Finds how the clock of another node differs from the own one, by questions that the other node
// answers with its time (Cristian, "Probabilistic clock synchronization", 1989): the answer was
// given at some time between question and answer, so half of that time bounds the error. The
// question with the smallest bound counts. With its age the bound grows, since clocks drift.
//
//   match.add(asked, theirs, answered);
//   own_time = their_time + match.shift();
//
// A value. Threads: one at a time. Errors: none.
#pragma once

#include <optional>

#include "runtime/messages/ids.hpp"

namespace troupe {

class clock_match {
 public:
  static constexpr double drift = 100e-6;  // between two clocks, at most: a quartz oscillator is off by at most 50 ppm

  // `asked`, `answered`: own times of question and answer. `theirs`: in the answer.
  void add(time_point asked, time_point theirs, time_point answered);
  bool known() const { return best_.has_value(); }
  duration shift() const { return best_ ? best_->shift : duration{}; }
  // Bound of the error of shift() at the own time `now`.
  duration error_at(time_point now) const;

 private:
  struct sample {
    time_point at{};
    duration shift{}, error{};
  };
  std::optional<sample> best_;
};

}  // namespace troupe
