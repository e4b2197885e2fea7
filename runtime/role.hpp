// A role decides; a host runs. A role is a value that reacts to one message at a time and says what
// should happen: its effects. It has no thread, lock, clock, socket or file, so the same code runs
// as a CAF actor, in sim::world, and in a test.
//
// Invariants a host keeps:
//   * on() is never called concurrently for one role, and messages of one source arrive in the
//     order they were sent;
//   * every run() is answered by exactly one `finished` with its token, after the task has run;
//     tasks of one role with the same slot never overlap, tasks with different slots may;
//   * effects take place after on() returns, in the order they were appended.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/messages/drops.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

class device;
struct handover;  // runtime/coordinator/handover.hpp

// What the host lends to a task while it runs.
struct task_context {
  device& dev;
};
using task_work = std::function<void(task_context&)>;

// What a task costs, for hosts that do not run it: forward multiply-adds x 2, and bytes moved.
struct task_cost {
  double flops = 0;
  double bytes = 0;
  const char* kind = "job";  // names the row of the compute model and the span in a trace
};

struct send_effect {
  envelope e;
};
struct run_effect {
  task_work work;
  task_cost cost;
  std::uint64_t token = 0;
  std::uint32_t slot = 0;  // sub-solver
};
// Something for people and files: a step, an evaluation, an error. The host prints, records,
// forwards.
struct event_effect {
  std::string kind;  // "step", "eval", "done", "error", ...
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, double>> values;
  std::string text;
};
// Named tensors for the record (checkpoint, final weights), or for the job's next plan
// ("handover").
struct store_effect {
  std::string what;  // "checkpoint", "weights", "handover"
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, tensor>> named;
  std::shared_ptr<const handover> with = {};  // of a handover
};
// Hogwild's parameters (Niu et al. 2011): one array per node that all its workers read and add to
// without a lock, outside of any mailbox. The host keeps it; a block is created by the first write.
// Answered by `finished`. An add may lose a concurrent one.
struct shared_effect {
  enum class kind_of : std::uint8_t { read, add, write };
  kind_of kind = kind_of::read;
  std::uint32_t block = 0;
  std::shared_ptr<tensor> value;  // read: where to (gets memory); add: what; write: the block's new content
  std::uint64_t token = 0;
};
struct stop_effect {};  // this role is done and wants no more messages

using effect = std::variant<send_effect, run_effect, event_effect, store_effect, shared_effect, stop_effect>;

// The reused sink.
class effects {
 public:
  void send(envelope e) { list_.emplace_back(send_effect{std::move(e)}); }
  void run(task_work work, task_cost cost, std::uint64_t token, std::uint32_t slot = 0) {
    list_.emplace_back(run_effect{std::move(work), cost, token, slot});
  }
  void event(event_effect e) { list_.emplace_back(std::move(e)); }
  void store(store_effect e) { list_.emplace_back(std::move(e)); }
  void shared(shared_effect e) { list_.emplace_back(std::move(e)); }
  void stop() { list_.emplace_back(stop_effect{}); }

  std::vector<effect>& list() { return list_; }
  void clear() { list_.clear(); }

 private:
  std::vector<effect> list_;
};

// For `queues` and `waits`: published by the host, never asked of a role that computes.
struct role_status {
  std::uint64_t step = 0;
  std::uint64_t version = 0;
  std::uint32_t queued = 0;     // messages held
  std::uint32_t in_flight = 0;  // packets bound to sub-solvers
  std::uint32_t credit = 0;     // free slots granted to us by consumers
  std::string waits_for;        // "weights version 12 from worker0", empty when it waits for nothing
  drop_counts dropped;          // messages that it has ignored; the host fills it in
};

class role {
 public:
  virtual ~role() = default;
  virtual void on(const envelope& e, time_point now, effects& out) = 0;
  virtual role_status status() const { return {}; }
  // Which packet its task of this token is for (step and packet), asked when the host is given the
  // task, so that one that does not end can be named; nothing: the task is not one packet's.
  virtual std::optional<header> packet_of_task(std::uint64_t token) const { return (void)token, std::nullopt; }
  // Messages that on() has ignored since the role was made, by reason.
  virtual drop_counts dropped() const { return dropped_; }

 protected:
  // For on(): this message changes nothing, and this is why.
  void drop(drop_reason r) { ++dropped_[r]; }

 private:
  drop_counts dropped_;
};

}  // namespace troupe
