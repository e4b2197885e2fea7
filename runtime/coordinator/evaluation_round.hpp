// Evaluation rounds as the coordinator counts them: the round in progress, and the weights that it
// and the last round evaluated. It knows rounds and their reports, but not which roles load test
// data, requests for a round, or the consequences of its result.
//
// Invariants: at most one round at a time; weights_evaluated() is false after the weights have
// changed. Errors: none. Threads: a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/coordinator/report_sheet.hpp"

namespace troupe {

// The result of a round, from its means.
struct verdict {
  double loss = 0;                 // weighted sum
  std::optional<double> accuracy;  // the first metric with more_is_better()
  scalars others;                  // the other metrics
};
verdict verdict_of(const model_graph& g, const scalars& means);

class evaluation_round {
 public:
  // The part that the job's next plan continues from.
  struct history {
    std::uint64_t evaluated = 0;  // the step of the last round
    std::uint64_t rounds = 0;     // number of rounds so far
    double accuracy = -1;         // of the last round
  };
  explicit evaluation_round(history h) : past_(h) {}
  const history& past() const { return past_; }
  // The history without the round in progress: the next plan repeats that round.
  const history& last_finished() const { return under_way() ? before_ : past_; }
  const history& before_last() const { return before_; }  // without the last round begun; needs one

  // --- the round in progress
  // Begins a round at `step`, by the tester or by all workers. `of`: the step whose flushed weights
  // it evaluates; nullopt if the weights change during the round. `continues`: it is the second
  // half of an evaluation, after the round that has just ended; the next plan repeats both.
  void begin(std::uint64_t step, std::optional<std::uint64_t> of, bool by_tester, report_sheet reports, bool continues = false);
  bool under_way() const { return sheet_.has_value(); }
  bool is(std::uint64_t round) const { return under_way() && past_.rounds == round; }
  bool by_tester() const { return by_tester_; }
  std::uint32_t missing() const { return sheet_->missing(); }
  // Returns the reports if this was the last one; the round is then over.
  std::optional<report_sheet> take(std::uint32_t packet, std::uint32_t first_layer, report r);

  // --- results
  void record_result(std::optional<double> accuracy);  // of the round that has just ended
  void weights_change() { evaluated_step_.reset(); }
  // Returns true if the accuracy is that of the weights at this step.
  bool weights_evaluated(std::uint64_t step) const { return evaluated_step_ == step; }

  // --- intervals of `every` steps
  bool due(std::uint64_t progress, std::uint64_t every) const { return progress / every > past_.evaluated / every; }
  // The first multiple of `every` after the last round and not before `progress`: a job may
  // continue beyond evaluations that were due, because its file has another interval.
  std::uint64_t next(std::uint64_t progress, std::uint64_t every) const {
    return std::max(past_.evaluated / every + 1, progress / every + (progress % every > 0 ? 1 : 0)) * every;
  }
  bool made(std::uint64_t step) const { return past_.rounds > 0 && past_.evaluated == step; }
  // Marks the evaluation at `step` as made if there was nothing to do.
  void skip_to(std::uint64_t step);

 private:
  history past_, before_;
  std::optional<report_sheet> sheet_;
  bool by_tester_ = false;
  std::optional<std::uint64_t> evaluated_step_, evaluating_step_;
};

}  // namespace troupe
