// The schedule "plateau": the coordinator lowers the learning rate when evaluations stop improving,
// as ReduceLROnPlateau of PyTorch does. The new rate is a setting, like one that a person makes, so
// that it is part of handovers and checkpoints; in lockstep nothing is granted during an
// evaluation, so the rate changes at the same step in every run.
//
// A value: depends only on the results of evaluations. Its state can be written as text (memory)
// and read back (recall).
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "ops/options.hpp"
#include "runtime/coordinator/compared_measure.hpp"

namespace troupe {

class rate_plateau {
 public:
  static constexpr const char* name = "plateau";  // of the schedule, and of its state in checkpoints

  // Options of the schedule (ops/schedule.cpp), checked.
  explicit rate_plateau(const options& o);

  // The result of an evaluation; `accuracy` < 0: the model has none. Returns true if the rate is to
  // be lowered.
  bool after_evaluation(double loss, double accuracy);
  double lowered(double lr) const;

  std::string memory() const;
  void recall(const std::string& text);  // damaged text leaves the initial state

 private:
  std::int64_t patience_;
  double factor_, threshold_, least_;
  compared_measure measure_;
  double best_ = -std::numeric_limits<double>::infinity();  // larger is better: the accuracy, or minus the loss
  std::int64_t bad_ = 0;                                    // consecutive evaluations without a new best
};

}  // namespace troupe
