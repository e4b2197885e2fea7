// Portions from step to step (sandblaster): the book of the step that is dealt, that of the one
// before, and what a worker that is lost takes with it. Knows steps, packets and workers; never who
// loads or reports them, or when there is a boundary.
//
// Invariants: a step is dealt when the one before is done; of the step before, what a lost worker
// was the first to do is done again by itself (the shards may still want its sums); a step in which
// a worker was lost is remembered, for its sums may have gaps although its losses are all there.
// Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/coordinator/work_units.hpp"

namespace troupe {

class work_unit_dealer {
 public:
  // `size`: packets of a portion; 0: nothing is dealt, and all is as if it were done.
  work_unit_dealer(std::uint32_t packets, std::uint32_t size, std::uint32_t workers)
      : packets_(packets), size_(size), workers_(workers) {}

  bool deals() const { return size_ > 0; }
  // The step that may be dealt next, where `completed` is the first; none while one is under way.
  std::optional<std::uint64_t> next_step(std::uint64_t completed) const;
  void open(std::uint64_t step);
  // What to send now.
  std::vector<work_unit_book::deal> deal();

  // A worker has summed the portion that begins with this packet.
  bool done(std::uint32_t worker, std::uint64_t step, std::uint32_t first);
  // Weights of `version` are there: what was dealt for an earlier step will not be computed any
  // more. True: losses of it may be missing, for a worker was lost in that step.
  bool over(std::uint64_t version);
  // A worker was restarted, and begins with `step`. What of the step before it does again itself.
  std::vector<work_unit> lost(std::uint32_t worker, std::uint64_t step);

  // Is any step dealt at all?
  bool dealt() const { return now_.has_value(); }
  bool complete() const { return !now_ || now_->complete(); }
  bool lost_one() const { return now_ && lost_in_ == now_->step(); }  // in this step
  // This packet's losses may be lost, and nobody will report them.
  bool has_done(std::uint64_t step, std::uint32_t packet) const;

 private:
  std::uint32_t packets_, size_, workers_;
  std::optional<work_unit_book> now_, before_;
  std::optional<std::uint64_t> lost_in_;
};

}  // namespace troupe
