// The coordinator's account of steps: grants, reports, complete steps, and the progress of each
// worker. It knows steps, packets and workers, but not the contents of reports or the boundaries.
//
// Invariants: a step is complete when all its reports have arrived, and is returned once, in order;
// reports of steps that are complete or not granted are dropped; grants and progress never
// decrease. Errors: none. Threads: a value.
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
  // Returns the steps that have become complete, in order. Call it whenever reports were taken.
  std::vector<complete_step> take_complete();

 private:
  struct entry {
    std::uint64_t granted = 0, done = 0;
    bool changed = false, risen = false;  // is in changed_, risen_
  };
  report_sheet& sheet(std::uint64_t step);
  void note_change(std::uint32_t worker);
  void count_done(std::uint32_t worker);

  std::vector<packet_range> ranges_;
  std::uint32_t packets_, stages_;
  std::uint64_t completed_;
  std::vector<entry> entries_;  // by worker
  std::map<std::uint64_t, report_sheet> sheets_;
  // A report costs the same whatever the number of workers: sums and maxima of the entries, workers
  // whose reports have changed since the last take_complete(), and workers for take_risen().
  std::uint64_t max_granted_ = 0, max_done_ = 0, sum_done_ = 0;
  std::vector<std::uint32_t> changed_, risen_;
};

}  // namespace troupe
