// role_actor: a CAF actor that hosts one role of any kind and turns its effects into sends and
// tasks.
//
// Invariants (runtime/role.hpp states what a host guarantees a role):
//   * Effects happen in order, except that a task starts after the other effects of the same on(),
//     so that messages do not wait for the task.
//   * With one slot, tasks run in this actor, in order. A message that arrived while a task ran is
//     delivered before that task's `finished`, so that the role chooses its next task with complete
//     information.
//   * After `time_slice` of tasks the actor moves to the end of the scheduler's queue, and handles
//     its mailbox before it continues.
//   * A role that gives way also moves there, before a long task, while a sub-solver has a task
//     that no thread has begun.
//   * An exception of the role or of its task becomes the event "error". The role receives no
//     messages after it.
//   * A message is destroyed before the effects of its on() are performed. Its tensors then have
//     only one owner, the role or the next receiver, who can modify them in place
//     (tensor::reclaim).
// Cost: one allocation per message sent (CAF's mailbox element, which holds the envelope).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/shell/hosted_job.hpp"
#include "actors/shell/own_tasks.hpp"
#include "actors/shell/sub_solver.hpp"
#include "runtime/role.hpp"

namespace troupe {

constexpr size_t message_slice = 64;  // messages after which the actor also moves to the end of the queue

struct pump_tasks {};   // to self: continue with the waiting tasks
struct publish_now {};  // monitor -> role actor

class role_actor;

// Measurements of a role for the monitor, in addition to the role's own status.
struct role_tally {
  std::uint64_t messages = 0;
  std::uint32_t sent = 0;  // number of the last message sent (header::trace)
  duration busy{};
  duration last_task{};
  time_point published_at{};
  bool changed = false;  // since published_at

  void worked(duration d) {
    last_task = d;
    busy += d;
  }
};

// The actors that run a role's tasks, one per slot. Empty: the role's own actor runs them.
struct sub_solvers {
  std::vector<solver_queue> queues;
  std::vector<caf::actor> actors;

  void spawn(role_actor& owner, const std::shared_ptr<hosted_job>& j, const seat& s);
  void run(task_request&& r, hosted_job& j, caf::execution_unit* where);
  void stop();
};

class role_actor final : public compat::base_actor {
 public:
  role_actor(caf::actor_config& c, std::shared_ptr<hosted_job> j, seat s);
  caf::behavior make_behavior() override;
  bool cleanup(caf::error&& reason, caf::execution_unit* where) override;
  resume_result resume(caf::execution_unit* where, size_t throughput) override;
  const char* name() const override { return "role"; }

 private:
  void receive(envelope& e);
  void answer(const task_answer& a);

  void hand_to_role(envelope& e);  // calls on() and performs its effects; catches exceptions; clears `e`
  void tell_finished(std::uint64_t token);
  void perform();
  void perform(send_effect& x);
  void perform(run_effect& x);
  void perform(event_effect& x);
  void perform(store_effect& x);
  void perform(shared_effect& x);
  void perform(stop_effect& x);
  void cross_to(envelope& e, device& to);
  device& leaving();

  void pump();
  bool waits(const run_effect& r) const;  // true if `r` must give way to sub-solvers
  void run_next();
  void continue_later();

  void fail(const std::string& what);
  void fail_of_task(const task_answer& a);
  void note_change(time_point now);
  void publish(time_point now);

  std::shared_ptr<hosted_job> job_;
  seat seat_;  // without its value, which is moved to role_
  std::shared_ptr<role> role_;
  std::shared_ptr<device> stream_;   // stream of the tasks that run in this actor; null with sub-solvers
  std::shared_ptr<device> leaving_;  // stream of copies to other devices
  sub_solvers solvers_;
  effects out_;

  own_tasks tasks_;
  work_turn turn_;
  bool pump_posted_ = false;

  std::optional<std::string> failure_;
  bool stopping_ = false;
  std::uint64_t step_ = 0;  // of the last message handled; the step of an "error" event
  role_tally tally_;
};

}  // namespace troupe

TROUPE_LOCAL_MESSAGE(troupe::envelope)
TROUPE_LOCAL_MESSAGE(troupe::pump_tasks)
TROUPE_LOCAL_MESSAGE(troupe::publish_now)
