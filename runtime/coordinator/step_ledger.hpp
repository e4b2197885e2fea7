// The coordinator's account of steps: grants, reports, complete steps, and the progress of each
// worker. It knows steps, packets, workers and their incarnations, but not the contents of reports
// or the boundaries.
//
// Invariants: a step is complete when all its reports have arrived or are given up, and is returned
// once, in order; reports of steps that are complete or not granted are dropped; after the restart
// of a worker its reports of steps before the one it joined at are dropped, also late ones of an
// earlier incarnation; grants and progress never decrease. Errors: none. Threads: a value.
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
  // `stages`: reports that make a packet complete; `first`: the first step.
  step_ledger(const job_plan& plan, std::uint32_t stages, std::uint64_t first);

  // --- grants
  // Number of workers with a loader; only these are granted steps.
  std::uint32_t workers() const { return static_cast<std::uint32_t>(entries_.size()); }
  // Returns true if this raises the worker's grant.
  bool grant(std::uint32_t worker, std::uint64_t until);
  std::uint64_t granted(std::uint32_t worker) const { return entries_[worker].granted; }
  std::uint64_t max_granted() const { return max_granted_; }

  // --- progress
  // All steps below this one are complete.
  std::uint64_t completed() const { return completed_; }
  // All packets of this worker are complete in steps below this one.
  std::uint64_t done(std::uint32_t worker) const { return entries_[worker].done; }
  std::uint64_t max_done() const { return max_done_; }
  std::uint64_t least_done(const std::function<bool(std::uint32_t worker)>& of) const;  // of the workers in `of`; ~0: none
  std::uint64_t mean_done() const { return sum_done_ / entries_.size(); }
  // Returns the workers whose done() has risen since the last call, in order.
  std::vector<std::uint32_t> take_risen();

  // --- reports
  bool wants(std::uint64_t step) const { return step >= completed_ && step < max_granted(); }
  // As report_sheet::take.
  bool take(std::uint64_t step, std::uint32_t packet, std::uint32_t first_layer, report r);
  // Returns the steps that have become complete, in order. Call it whenever reports were taken or
  // given up.
  std::vector<complete_step> take_complete();

  // --- restarted workers
  // A worker has sent ready{joined}. Returns true if it has done so before in this incarnation.
  bool meet(std::uint32_t worker, std::uint32_t incarnation);
  std::uint32_t life(std::uint32_t worker) const { return lives_[worker]; }
  // Stops waiting for the worker's reports of steps before `step`.
  void give_up_before(std::uint32_t worker, std::uint64_t step);
  // Stops waiting for missing reports of these packets, in the steps that have had a report.
  void give_up_packets(const std::function<bool(std::uint64_t step, std::uint32_t packet)>& which);
  // Steps below `step` may now be complete without any report, if all their reports are given up.
  void open_below(std::uint64_t step);

 private:
  struct entry {
    std::uint64_t granted = 0, done = 0;
    std::uint64_t joined_at = 0;          // reports of earlier steps are not awaited
    bool changed = false, risen = false;  // is in changed_, risen_
  };
  report_sheet& sheet(std::uint64_t step);
  void note_change(std::uint32_t worker);
  void count_done(std::uint32_t worker);

  std::vector<packet_range> ranges_;
  std::uint32_t packets_, stages_;
  std::uint64_t completed_;
  std::vector<entry> entries_;        // by worker
  std::vector<std::uint32_t> lives_;  // by worker, including workers that host placed layers: the incarnation that has joined
  std::map<std::uint64_t, report_sheet> sheets_;
  // A report costs the same whatever the number of workers: sums and maxima of the entries, workers
  // whose reports have changed since the last take_complete(), and workers for take_risen().
  std::uint64_t max_granted_ = 0, max_done_ = 0, sum_done_ = 0;
  std::vector<std::uint32_t> changed_, risen_;
};

}  // namespace troupe
