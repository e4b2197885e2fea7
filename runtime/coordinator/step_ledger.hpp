// The steps of a job as the coordinator counts them: which are granted to whom, what has been
// reported of each, which are complete, and how far every worker is. Knows steps, packets, workers
// and their lives; never what a report says, when a boundary is, or who is told of a grant.
//
// Invariants: a step is complete when all its reports are here or given up, and is taken out once,
// in order; nothing is believed of a step that is complete or was granted to nobody; a worker that
// was restarted reports nothing of steps before the one it joined at, whatever of its former life
// comes late; grants and progress never shrink. Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "runtime/coordinator/report_sheet.hpp"

namespace troupe {

class step_ledger {
 public:
  struct complete_step {
    std::uint64_t step;
    report_sheet reports;
  };
  // Of this plan's workers, whose packets are complete with `stages` reports each; steps begin with
  // `first`.
  step_ledger(const job_plan& plan, std::uint32_t stages, std::uint64_t first);

  // --- grants
  // Workers with a loader, which may be granted steps.
  std::uint32_t workers() const { return static_cast<std::uint32_t>(entries_.size()); }
  // True: it had less.
  bool grant(std::uint32_t worker, std::uint64_t until);
  std::uint64_t granted(std::uint32_t worker) const { return entries_[worker].granted; }
  std::uint64_t max_granted() const;

  // --- progress
  // All steps below it are complete.
  std::uint64_t completed() const { return completed_; }
  // All packets of this worker are, in steps below it.
  std::uint64_t done(std::uint32_t worker) const { return entries_[worker].done; }
  std::uint64_t most_done() const;
  std::uint64_t least_done(const std::function<bool(std::uint32_t worker)>& of) const;  // of some; ~0: of nobody
  std::uint64_t mean_done() const;

  // --- reports
  bool wants(std::uint64_t step) const { return step >= completed_ && step < max_granted(); }
  // As report_sheet::take.
  bool take(std::uint64_t step, std::uint32_t packet, std::uint32_t first_layer, report r);
  // Steps that have become complete, in order. To be called whenever reports were taken or given
  // up.
  std::vector<complete_step> take_complete();

  // --- restarted workers
  // A worker half says that it is there. True: it has said so in this life before.
  bool meet(std::uint32_t worker, std::uint32_t incarnation);
  std::uint32_t life(std::uint32_t worker) const { return lives_[worker]; }
  // Its reports of steps before `step` do not come any more.
  void give_up_before(std::uint32_t worker, std::uint64_t step);
  // Reports of these packets that are not here do not come, in the steps that anything is known of.
  void give_up_packets(const std::function<bool(std::uint64_t step, std::uint32_t packet)>& which);
  // From now on steps below `step` may be complete although nobody has reported of them: those who
  // would have are given up.
  void open_below(std::uint64_t step);

 private:
  struct entry {
    std::uint64_t granted = 0, done = 0;
    std::uint64_t joined_at = 0;  // reports of earlier steps do not come any more
  };
  report_sheet& sheet(std::uint64_t step);

  std::vector<packet_range> ranges_;
  std::uint32_t packets_, stages_;
  std::uint64_t completed_;
  std::vector<entry> entries_;        // by worker
  std::vector<std::uint32_t> lives_;  // by worker half, those of placed layers too: the incarnation that has joined
  std::map<std::uint64_t, report_sheet> sheets_;
};

}  // namespace troupe
