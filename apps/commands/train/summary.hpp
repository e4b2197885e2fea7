// The summary of a run, printed after "done": the loss as a curve, its first, last and lowest
// value, the best evaluation, the speed, and where the time went.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/screen.hpp"
#include "runtime/messages/best_evaluation.hpp"
#include "runtime/role.hpp"

namespace troupe {

// A series of values with bounded memory: when it is full, neighbours are averaged.
class thinned_series {
 public:
  void add(double value);
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  std::size_t each_ = 1, pending_ = 0;  // values per entry; values summed in sum_ so far
  double sum_ = 0;
};

// What the caller knows at the end of a run, and events do not say.
struct run_ending {
  std::string time;               // time_sampler::text(); empty: not known
  std::string run_folder;         // empty: none was kept
  std::vector<std::string> next;  // commands to go on with, each on a line
};

class run_summary {
 public:
  // The best evaluation of the run before this process continued it.
  void begin_with(const std::optional<best_evaluation>& best);
  void event(const event_effect& e);
  // `examples`: trained since the run began; 0: unknown. `seconds`: of the event "done".
  std::string text(const screen& s, double examples, double seconds, const run_ending& end) const;
  // True if the last event was the best evaluation so far, and not the first one.
  bool improved() const { return improved_; }

 private:
  struct at_step {
    double value = 0;
    std::uint64_t step = 0;
  };
  void go_back(std::uint64_t step);

  thinned_series losses_;
  std::optional<at_step> first_, last_;  // losses of steps
  best_so_far lowest_;                   // the same, as evaluations
  best_so_far best_;
  bool improved_ = false;
};

}  // namespace troupe
