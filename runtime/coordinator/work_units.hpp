// The work units of one step, dealt to workers (Dean et al. 2012, section 4.2). Each worker has a
// few units ahead; when all are dealt, copies of the units that have been out longest go to idle
// workers. The first answer counts.
// Invariants: a unit is done once; a worker never gets the same unit twice.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "runtime/messages/control.hpp"

namespace troupe {

class work_unit_book {
 public:
  struct deal {
    std::uint32_t worker;
    work_unit what;
  };
  // `size`: packets per unit; the last unit may have fewer.
  work_unit_book(std::uint64_t step, std::uint32_t packets, std::uint32_t size, std::uint32_t workers);

  // Returns the units to send now. `ahead`: units that a worker may have at a time.
  std::vector<deal> next(std::uint32_t ahead = 2);
  // The worker has summed and sent the unit that begins with packet `first`. Returns false if the
  // unit was done before or not dealt to the worker.
  bool done(std::uint32_t worker, std::uint32_t first);
  // Marks all units as done: the weights of the next version exist.
  void finish();

  bool complete() const { return left_ == 0; }
  std::uint64_t step() const { return step_; }
  std::uint64_t copies() const { return copies_; }

 private:
  struct entry {
    work_unit what;
    std::set<std::uint32_t> given;  // workers
    bool done = false;
  };

  std::uint64_t step_;
  std::vector<entry> all_;
  std::deque<std::size_t> undealt_, out_;  // indices into all_; out_: dealt ones, in the order of dealing
  std::vector<std::uint32_t> has_;         // by worker: open units
  std::size_t left_;
  std::uint64_t copies_ = 0;
};

}  // namespace troupe
