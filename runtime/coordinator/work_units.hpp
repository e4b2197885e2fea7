// The portions of one step, dealt to workers (Dean et al. 2012, section 4.2): each worker has a
// little work ahead; when nothing is left to deal, the portions that have been out longest are
// given a second time, to workers without work. The first answer counts.
// Invariants: a portion is done once; a worker never gets the same portion twice.
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
  // `size` packets each, the last possibly fewer.
  work_unit_book(std::uint64_t step, std::uint32_t packets, std::uint32_t size, std::uint32_t workers);

  // What to send now. `ahead`: how many portions a worker may have at a time.
  std::vector<deal> next(std::uint32_t ahead = 2);
  // A worker says that the portion with packet `first` is summed and sent. False: it was done
  // already, or never dealt.
  bool done(std::uint32_t worker, std::uint32_t first);
  // All portions count as done: weights of the next version are there.
  void finish();
  // A worker was restarted. Unless the step is over, what it had has to be done by others, and so
  // has what it was the first to do: of its sums some may have been lost with it although its word
  // came. Others who were given the same may have let it go since: layers of theirs are at the next
  // version. So it may be given the same again.
  void lost(std::uint32_t worker);
  // What this worker was the first to do.
  std::vector<work_unit> done_by(std::uint32_t worker) const;

  bool complete() const { return left_ == 0; }
  // Is the portion with this packet done?
  bool has_done(std::uint32_t packet) const;
  std::uint64_t step() const { return step_; }
  std::uint64_t copies() const { return copies_; }

 private:
  struct entry {
    work_unit what;
    std::set<std::uint32_t> given;  // workers
    bool done = false;
    std::uint32_t by = ~0u;  // who did it
  };

  std::uint64_t step_;
  std::vector<entry> all_;
  std::deque<std::size_t> undealt_, out_;  // positions; out_: in the order they were first dealt
  std::vector<std::uint32_t> has_;         // by worker: portions not done
  std::size_t left_;
  bool over_ = false;
  std::uint64_t copies_ = 0;
};

}  // namespace troupe
