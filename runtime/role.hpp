// The interface of a role and of its effects. A role is a state machine: it handles one message at
// a time and appends effects, the actions that its host performs for it. A role has no thread,
// lock, clock, socket or file, so the same code runs as a CAF actor, in sim::world and in a test.
//
// Guarantees of a host:
//   * on() is never called concurrently for one role. Messages from one source arrive in the order
//     in which they were sent.
//   * Every run() is answered by exactly one `finished` with its token, after the task has run.
//     Tasks of one role with the same slot never overlap; tasks with different slots may.
//   * Effects are performed after on() returns, in the order in which they were appended. A task
//     may start after the other effects of the same on().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ops/one_of.hpp"
#include "runtime/messages/drops.hpp"
#include "runtime/messages/event.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

class device;
struct handover;  // runtime/coordinator/handover.hpp

// Passed by the host to a running task; valid until the task returns.
struct task_context {
  device& dev;
};
using task_work = std::function<void(task_context&)>;

// The cost of a task, from which a host that does not run it computes its time.
struct task_cost {
  double flops = 0;          // a multiply-add counts as 2
  double bytes = 0;          // memory traffic, read and written
  const char* kind = "job";  // name in traces; simulations have measured times of "forward" and "backward"
};

// Sends a message to the role `e.h.dst`.
struct send_effect {
  envelope e;
};
// Runs `work` as a task of the role. The role receives `finished` with `token` when it has run.
struct run_effect {
  task_work work;
  task_cost cost;
  std::uint64_t token = 0;
  std::uint32_t slot = 0;  // number of the sub-solver that the task belongs to
};
// Hands named tensors to the host.
struct store_effect {
  enum class kind_of : std::uint8_t {
    checkpoint,  // to be written to a file
    weights,     // the final ones
    best,        // the weights of the best evaluation so far
    handover,    // the state with which the job's next plan begins
  };
  kind_of what = kind_of::checkpoint;
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, tensor>> named;
  std::shared_ptr<const handover> with = {};  // null for weights and best
};
inline const char* name_of(store_effect::kind_of k) {
  static constexpr const char* names[] = {"checkpoint", "weights", "best", "handover"};
  return names[static_cast<std::size_t>(k)];
}
// Accesses the shared parameters of Hogwild (Niu et al. 2011): one array per node, owned by the
// host, that all workers of the node read and add to without locks and without messages. The first
// write of a block creates it. Answered by `finished` with `token`. Concurrent adds to one element
// may lose one of them.
struct shared_effect {
  enum class kind_of : std::uint8_t { read, add, write };
  kind_of kind = kind_of::read;
  std::uint32_t block = 0;
  std::shared_ptr<tensor> value;  // read: receives the block (memory is allocated); add: addend; write: new content
  std::uint64_t token = 0;
};
// Ends the role. It receives no further messages.
struct stop_effect {};

// event_effect (messages/event.hpp): reports to users. The host prints, records or forwards it.
struct effect_kinds {
  using variant = std::variant<send_effect, run_effect, event_effect, store_effect, shared_effect, stop_effect>;
};
using effect = one_of<effect_kinds>;
extern template class one_of<effect_kinds>;

// The list to which on() appends its effects. A host clears and reuses it between calls.
class effects {
 public:
  void send(envelope e) { list_.emplace_back(send_effect{std::move(e)}); }
  void run(task_work work, task_cost cost, std::uint64_t token, std::uint32_t slot = 0) {
    list_.emplace_back(run_effect{std::move(work), cost, token, slot});
  }
  // `answers`: the commands of which it is the outcome.
  void event(std::uint64_t step, job_event_kind what, std::vector<command_id> answers = {}) {
    list_.emplace_back(event_effect{step, std::move(what), std::move(answers)});
  }
  void event(event_effect e) { list_.emplace_back(std::move(e)); }  // an event of an earlier step, or one that was prepared
  void store(store_effect e) { list_.emplace_back(std::move(e)); }
  void shared(shared_effect e) { list_.emplace_back(std::move(e)); }
  void stop() { list_.emplace_back(stop_effect{}); }

  std::vector<effect>& list() { return list_; }
  void clear() { list_.clear(); }

 private:
  std::vector<effect> list_;
};

// What a role waits for, as a kind; role_status::waits_for has the details.
enum class wait_kind : std::uint8_t {
  none,       // the role does not wait, or has nothing to do
  data,       // examples: from storage, a data server or another worker
  inputs,     // outputs of earlier layers
  weights,    // a version of the parameters
  gradients,  // of later layers, or of other workers and reducers
  credit,     // a consumer that still accepts packets
  grant,      // the coordinator's permission for further steps
  answers,    // replies of other roles: boundaries, evaluations, recovery
  user,       // a command, e.g. `resume`
};
inline constexpr std::size_t wait_kinds = static_cast<std::size_t>(wait_kind::user) + 1;

// The state of a role for users (REPL commands `queues` and `waits`). The host publishes copies; a
// role is not queried while it handles a message.
struct role_status {
  std::uint64_t step = 0;
  std::uint64_t version = 0;    // of the weights
  std::uint32_t queued = 0;     // messages that wait in the role
  std::uint32_t in_flight = 0;  // packets bound to sub-solvers
  std::uint32_t credit = 0;     // packets that consumers still accept
  std::string waits_for;        // e.g. "weights version 12 from worker0"; empty: the role does not wait
  wait_kind waits = wait_kind::none;
  drop_counts dropped;  // ignored messages; filled in by the host
  // Of a worker: element i counts the reads of a layer's weights that were i clocks old; the last
  // element counts all older ones, too.
  std::vector<std::uint64_t> staleness = {};
  // Of a worker: bytes of the gradient sums that it has sent, by codec_kind, and their size before
  // encoding.
  struct pushed_bytes {
    std::uint64_t sums = 0, sent = 0;
  };
  std::vector<pushed_bytes> pushed = {};

  void wait(wait_kind kind, std::string what) {
    waits = kind;
    waits_for = std::move(what);
  }
};

class role {
 public:
  virtual ~role() = default;
  // Handles one message: changes the role's state and appends effects to `out`. Never blocks. An
  // exception ends the job.
  virtual void on(const envelope& e, time_point now, effects& out) = 0;
  virtual role_status status() const { return {}; }
  // Returns the header of the packet that the task with this token works on, or nullopt if it does
  // not work on one packet. Hosts call it when they receive the task, to name a task that hangs.
  virtual std::optional<header> packet_of_task(std::uint64_t token) const { return (void)token, std::nullopt; }
  // Number of messages that on() has ignored since the role was made, by reason.
  virtual drop_counts dropped() const { return dropped_; }

 protected:
  // Called by on() for a message that it ignores. Counts the reason.
  void drop(drop_reason r) { ++dropped_[r]; }

 private:
  drop_counts dropped_;
};

}  // namespace troupe
