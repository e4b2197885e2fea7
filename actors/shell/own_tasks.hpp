// The queue of tasks that a role's own actor runs, and the length of a turn. Pure: the actor runs
// the tasks that it takes from here.
//
//   own_tasks   A task waits, is taken, and then either
//                 * runs here to its end (ran); the role is notified after the messages in its
//                   mailbox, or
//                 * continues on a device stream (goes_on_there) until the stream reports its end
//                   (over_there); the next task waits until then.
//   work_turn   A turn begins when the scheduler resumes the actor. It is over when the actor's
//               tasks have taken `time_slice`, or when the actor yields.
#pragma once

#include <cassert>
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
    assert(can_begin());
    run_effect r = std::move(waiting_[next_++]);
    if (next_ * 2 >= waiting_.size()) {  // keeps the capacity, and bounds a queue that is never empty
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

  // What happened to the task that take() returned: it ran, it continues on the stream, or the
  // stream has finished it.
  void ran(std::uint64_t token) { ran_ = token; }
  void goes_on_there() { on_stream_ = true; }
  void over_there() { on_stream_ = false; }

  // The token of the task that ran, so that the role can be notified; returned once.
  std::optional<std::uint64_t> take_ran() { return std::exchange(ran_, std::nullopt); }
  bool has_ran() const { return ran_.has_value(); }
  std::size_t size() const { return waiting_.size() - next_; }

 private:
  std::vector<run_effect> waiting_;  // from next_ on
  std::size_t next_ = 0;
  std::optional<std::uint64_t> ran_;
  bool on_stream_ = false;  // a task that began here still runs on the stream
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
  std::optional<time_point> began_;  // start of the turn's first task
  bool over_ = false, yields_ = false;
};

}  // namespace troupe
