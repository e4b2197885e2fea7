// Where a job is on its way through the controller, with the state that exists only there. A value;
// the caller supplies the time.
//
//   checking  -> receiving   the client uploads the file that the job starts from; then checking
//   checking  -> queued      jobs run one after the other
//   queued    -> gathering   waits for nodes of the plan that have not joined
//   gathering -> preparing   every node makes the plan, spawns its roles, connects to the others
//   preparing -> running     until the coordinator role reports done or error
//   gathering -> running     the first plan is made as in a recovery
//   any       -> ending      every node that has roles ends them; stores finish
//   ending    -> over
//
// Invariants: a job is over only after it was ending and no node is awaited. Deadlines, awaited
// nodes and the watch of progress exist only in the phases that use them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/supervision/link_watch.hpp"
#include "runtime/cluster/supervision/straggler_watch.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"

namespace troupe::control {

// The state of each phase.
namespace phases {
struct checking {
  instant deadline{};
};
struct receiving {
  instant deadline{};  // of the next piece
};
struct queued {};
struct gathering {
  instant deadline{};
};
struct preparing {
  instant deadline{};
  std::set<std::string> awaited;
};
struct running {
  instant begun{};
  bool paused = false;
  std::uint64_t handled = 0;  // messages, at `progress`
  instant progress{};         // the last sign of it
  task_watch tasks;
  straggler_watch stragglers;
  link_watch links;
  instant looked{};  // at what its nodes reported
};
struct ending {
  instant deadline{};
  std::set<std::string> awaited;
  std::set<std::string> post_mortems;  // NODE:FOLDER
};
struct over {};
}  // namespace phases

class job_run {
 public:
  enum class phase : std::uint8_t { checking, receiving, queued, gathering, preparing, running, ending, over };
  static constexpr std::chrono::seconds stall_after{120};  // no role handled a message; as in embedded mode

  phase at() const { return static_cast<phase>(state_.index()); }
  bool submitted() const { return at() <= phase::receiving; }  // checking or receiving
  bool runs() const { return at() == phase::running; }
  bool over() const { return at() == phase::over; }

  // --- transitions
  void check(instant deadline) { state_ = phases::checking{deadline}; }
  void receive(instant deadline) { state_ = phases::receiving{deadline}; }
  void queue() { state_ = phases::queued{}; }
  void gather(instant deadline) { state_ = phases::gathering{deadline}; }
  void prepare(instant deadline, std::set<std::string> nodes) { state_ = phases::preparing{deadline, std::move(nodes)}; }
  void run(instant now);
  void end(instant deadline, std::set<std::string> nodes);
  void finish();

  // --- waiting
  // Returns true if the deadline of this phase was over `more` ago. False: the phase has none.
  bool overdue(instant now, std::chrono::seconds more = {}) const;
  // Nodes that have not answered yet. Empty except while preparing and ending.
  const std::set<std::string>& awaited() const;
  // Gathering and preparing: the deadline of this phase is not before `deadline`.
  void wait_until(instant deadline);
  // Returns true if the node was awaited.
  bool answered(const std::string& node);
  void await_no_more();

  // --- while running
  // When its roles began. instant{}: it does not run.
  instant begun() const;
  void pause(bool yes);
  bool paused() const;
  void progressed(instant now);  // an event has arrived, or a plan has begun
  // `handled`: messages that the job's roles have handled so far. `computes`: a task runs. Returns
  // true if nothing has happened for `stall_after`.
  bool stalled(std::uint64_t handled, bool computes, instant now);
  // Returns true if `every` is over since it last did: nodes have reported anew.
  bool look_due(instant now, std::chrono::milliseconds every);
  // Tasks that its nodes report as running; the findings of task_watch.
  task_watch::findings look(const std::vector<watched_task>& tasks, instant now);
  // What its roles have done so far, and the connections of its nodes; the new stragglers.
  std::vector<straggler_event> look(const std::vector<role_load>& loads, const std::vector<link_load>& links, instant now);

  // --- stopping: the job ends at the next step boundary, with a checkpoint
  void stop();                           // by a user
  void preempt(const std::string& why);  // e.g. "n1 shuts down"; ignored if the job stops already
  bool stopping() const { return stop_.has_value(); }
  // Why it was preempted. Empty: it was not.
  const std::string& preempted() const;

  // --- account of its nodes
  void sent(std::uint64_t tcp_bytes) { tcp_bytes_ += tcp_bytes; }
  std::uint64_t tcp_bytes() const { return tcp_bytes_; }
  void wrote_post_mortem(const std::string& node, const std::string& folder);
  // "NODE:FOLDER, ..." in the order of the nodes. Empty: none.
  std::string post_mortems() const;

 private:
  // In the order of `phase`.
  std::variant<phases::checking, phases::receiving, phases::queued, phases::gathering, phases::preparing, phases::running,
               phases::ending, phases::over>
      state_;
  std::optional<std::string> stop_;  // set: the job stops; the text: why it is preempted, empty for a user's command
  std::uint64_t tcp_bytes_ = 0;      // that nodes have sent for it, as they reported when they ended roles
};

}  // namespace troupe::control
