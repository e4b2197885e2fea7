// The best evaluation of a job: the only rule by which evaluations are compared. What stores the
// best weights, describes a run or prints a summary uses it, so that all name the same step.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

struct best_evaluation {
  std::uint64_t step = 0;
  std::optional<double> accuracy;  // none: the model has no metric of which more is better
  double loss = 0;                 // of the evaluation's examples
};

// True if `e` is better than the best so far: a higher accuracy, and of equal ones the lower loss;
// without an accuracy the lower loss. The earlier one of equal evaluations stays the best. A value
// that is not finite is never better.
inline bool better(const best_evaluation& e, const std::optional<best_evaluation>& than) {
  if (!std::isfinite(e.accuracy.value_or(e.loss))) return false;
  if (!than || than->accuracy.has_value() != e.accuracy.has_value()) return true;
  if (e.accuracy && *e.accuracy != *than->accuracy) return *e.accuracy > *than->accuracy;
  return e.loss < than->loss || (std::isfinite(e.loss) && std::isnan(than->loss));
}

// The best of the evaluations so far, of a job that may go back to an earlier step and repeat what
// followed it. Remembers every evaluation that was better than all before it.
class best_so_far {
 public:
  // Returns true if `e` is the new best.
  bool note(const best_evaluation& e) {
    if (!better(e, best())) return false;
    all_.push_back(e);
    return true;
  }
  // The job has gone back to `step`: later evaluations did not happen.
  void go_back(std::uint64_t step) {
    while (!all_.empty() && all_.back().step > step) all_.pop_back();
  }
  std::optional<best_evaluation> best() const { return all_.empty() ? std::nullopt : std::optional(all_.back()); }

 private:
  std::vector<best_evaluation> all_;
};

}  // namespace troupe
