// Work units from step to step (sandblaster): the books of the current and the previous step, and
// the units to repeat after a worker is lost. It knows steps, packets and workers, but not loaders,
// reports or boundaries.
//
// Invariants: a step is dealt when the previous one is done; a restarted worker itself repeats the
// units of the previous step that it was the first to finish (the shards may still need its sums);
// the step in which a worker was lost is recorded, because its sums may be incomplete although its
// losses are complete. Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/coordinator/work_units.hpp"

namespace troupe {

class work_unit_dealer {
 public:
  // `size`: packets per work unit. 0: no units are dealt, and every step counts as done.
  work_unit_dealer(std::uint32_t packets, std::uint32_t size, std::uint32_t workers)
      : packets_(packets), size_(size), workers_(workers) {}

  bool deals() const { return size_ > 0; }
  // The step that may be dealt next; the first one is `completed`. Nullopt while a step is in
  // progress.
  std::optional<std::uint64_t> next_step(std::uint64_t completed) const;
  void open(std::uint64_t step);
  // Returns the units to send now.
  std::vector<work_unit_book::deal> deal();

  // The worker has summed the unit that begins with packet `first`. Returns false if that is not
  // new.
  bool done(std::uint32_t worker, std::uint64_t step, std::uint32_t first);
  // Weights of `version` exist: units of an earlier step will not be computed any more. Returns
  // true if losses of that step may be missing, because a worker was lost in it.
  bool over(std::uint64_t version);
  // A worker was restarted and begins with `step`. Returns the units of the previous step that it
  // must repeat.
  std::vector<work_unit> lost(std::uint32_t worker, std::uint64_t step);

  // Returns true if a step has been dealt.
  bool dealt() const { return now_.has_value(); }
  bool complete() const { return !now_ || now_->complete(); }
  bool lost_one() const { return now_ && lost_in_ == now_->step(); }  // in this step
  // Returns true if the packet's unit is done: if its losses were lost, they will not be reported.
  bool has_done(std::uint64_t step, std::uint32_t packet) const;

 private:
  std::uint32_t packets_, size_, workers_;
  std::optional<work_unit_book> now_, before_;
  std::optional<std::uint64_t> lost_in_;
};

}  // namespace troupe
