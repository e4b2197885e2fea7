// Evaluation as the coordinator counts it: the round under way, of which weights it is, and of
// which the last one was. Knows rounds, their reports, and the tester's lives; never who loads test
// data, when a round is due for other reasons than its interval, or what its outcome leads to.
//
// Invariants: one round at a time; a round's reports are of one life of the tester; what is known
// of weights is forgotten when they change. Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "runtime/coordinator/report_sheet.hpp"

namespace troupe {

// What a round's means say.
struct verdict {
  double loss = 0;                 // weighted sum
  std::optional<double> accuracy;  // the first metric of which more is better
  scalars others;                  // metrics
};
verdict verdict_of(const model_graph& g, const scalars& means);

class evaluation_round {
 public:
  // What a job's next plan goes on with.
  struct history {
    std::uint64_t evaluated = 0;  // the step of the last round
    std::uint64_t rounds = 0;     // how many there were
    double accuracy = -1;         // of the last
  };
  explicit evaluation_round(history h) : past_(h) {}
  const history& past() const { return past_; }
  // Without the round under way: who goes on from here makes it.
  const history& last_finished() const { return under_way() ? before_ : past_; }

  // --- the round under way At `step`, by the tester or by all workers; `of`: the step whose
  // settled weights it judges; none: they change while it lasts.
  void begin(std::uint64_t step, std::optional<std::uint64_t> of, bool by_tester, report_sheet reports);
  bool under_way() const { return sheet_.has_value(); }
  bool is(std::uint64_t round) const { return under_way() && past_.rounds == round; }
  std::uint32_t missing() const { return sheet_->missing(); }
  // The reports, when this was the last one: the round is over.
  std::optional<report_sheet> take(std::uint32_t packet, std::uint32_t first_layer, report r);
  // The tester speaks in this incarnation. True: it is a new one, what its former life has reported
  // of the round under way is void (it was of other weights), and it has to be asked again.
  bool tester_lives(std::uint32_t incarnation);
  // Restarted workers that have something else to do before they evaluate.
  void put_off(std::uint32_t worker, bool yes);
  std::set<std::uint32_t> take_put_off();

  // --- what is known
  void record_result(std::optional<double> accuracy);  // of the round that is over
  void weights_change() { evaluated_step_.reset(); }
  // Is the accuracy that of the weights at this step?
  bool weights_evaluated(std::uint64_t step) const { return evaluated_step_ == step; }

  // --- when the next one is due, every `every` steps
  bool due(std::uint64_t progress, std::uint64_t every) const { return progress / every > past_.evaluated / every; }
  std::uint64_t next(std::uint64_t every) const { return (past_.evaluated / every + 1) * every; }
  bool made(std::uint64_t step) const { return past_.rounds > 0 && past_.evaluated == step; }
  // As if it had been made, where there is nothing to do.
  void skip_to(std::uint64_t step);

 private:
  history past_, before_;
  std::optional<report_sheet> sheet_;
  bool by_tester_ = false;
  std::optional<std::uint64_t> evaluated_step_, evaluating_step_;
  std::uint32_t tester_life_ = 0;  // incarnation that we have heard of
  std::set<std::uint32_t> put_off_;
};

}  // namespace troupe
