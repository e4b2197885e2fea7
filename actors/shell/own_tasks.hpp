// The tasks that a role's own actor runs, and how long it may go on with them. Pure: the actor runs
// what it is given here.
//
//   own_tasks   asked for -> waiting -> run here, at once ------------------------> ran: the role is told of it after its mailbox
//                                    -> begun on a lane that goes on without us --> over when the lane says so; the next one waits
//   work_turn   a turn lasts from where the scheduler resumes the actor; over when its tasks have taken `time_slice`, or it yields
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

constexpr std::chrono::microseconds time_slice{500};

class own_tasks {
 public:
  void add(run_effect&& r) { waiting_.push_back(std::move(r)); }
  bool can_begin() const { return !on_stream_ && next_ < waiting_.size(); }
  const run_effect& next() const { return waiting_[next_]; }
  run_effect take() {
    run_effect r = std::move(waiting_[next_++]);
    if (next_ * 2 >= waiting_.size()) {  // keeps the memory, and a queue that never empties short
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(next_));
      next_ = 0;
    }
    return r;
  }
  void forget() {
    waiting_.clear();
    next_ = 0;
    ran_.reset();
  }

  // The task that was taken: what became of it.
  void ran(std::uint64_t token) { ran_ = token; }
  void goes_on_there() { on_stream_ = true; }
  void over_there() { on_stream_ = false; }

  // The token of what has run, for the role to be told; once.
  std::optional<std::uint64_t> take_ran() { return std::exchange(ran_, std::nullopt); }
  bool has_ran() const { return ran_.has_value(); }
  std::size_t size() const { return waiting_.size() - next_; }

 private:
  std::vector<run_effect> waiting_;  // from next_ on
  std::size_t next_ = 0;
  std::optional<std::uint64_t> ran_;
  bool on_stream_ = false;  // a task that was begun here is not over there
};

class work_turn {
 public:
  void begin() { *this = {}; }
  void worked(time_point from, time_point to) {
    if (!began_) began_ = from;
    over_ = to - *began_ >= time_slice;
  }
  bool over() const { return over_; }
  void yield() { yields_ = true; }
  bool yields() const { return yields_; }

 private:
  std::optional<time_point> began_;  // the first task
  bool over_ = false, yields_ = false;
};

}  // namespace troupe
