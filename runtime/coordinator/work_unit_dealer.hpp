// Work units from step to step (sandblaster): the book of the current step. It knows steps, packets
// and workers, but not loaders, reports or boundaries.
//
// Invariant: a step is dealt when the previous one is done. Errors: none. Threads: a value.
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
  // Weights of `version` exist: units of an earlier step will not be computed any more.
  void over(std::uint64_t version);

  bool complete() const { return !now_ || now_->complete(); }

 private:
  std::uint32_t packets_, size_, workers_;
  std::optional<work_unit_book> now_;
};

}  // namespace troupe
