// The shell: one CAF actor that hosts one role, and turns its effects into sends, timers and tasks.
// Written once, for every role.
//
// Invariants (see runtime/role.hpp for what a host owes a role):
//   * Effects happen in their order, except that a task starts after the other effects of the same
//     on(): messages do not wait for the task that was asked for beside them.
//   * With one slot, tasks run here, in order. A message that arrived while a task ran reaches the
//     role before that task's `finished`, so that the role chooses its next task knowing
//     everything.
//   * After `time_slice` of tasks the actor goes to the end of the scheduler's queue, and looks at
//     its mailbox before it goes on.
//   * A role that gives way goes there too, before a long task, while a sub-solver has a task that
//     no thread has begun.
//   * An exception of the role or of its task becomes the event "error", and the role hears nothing
//     more.
//   * A message is gone before the effects of its on() take place: what it brought is then the
//     role's alone, or whoever's it has been sent to, and can be worked on in place
//     (tensor::reclaim).
// Cost: one allocation per message sent (CAF's mailbox element, which holds the envelope).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/shell/hosted_job.hpp"
#include "actors/shell/own_tasks.hpp"
#include "actors/shell/sub_solver.hpp"
#include "actors/shell/timers.hpp"
#include "runtime/role.hpp"

namespace troupe {

constexpr size_t message_slice = 64;  // also goes to the end of the queue after so many messages

struct pump_tasks {};   // to self: go on with the tasks that wait
struct publish_now {};  // monitor -> role actor
struct timer_wake {};   // to self: a timer may be due

class role_actor;

// What the monitor shows of a role beside its own words.
struct role_tally {
  std::uint64_t messages = 0;
  duration busy{};
  duration last_task{};
  time_point published_at{};
  bool changed = false;  // since then

  void worked(duration d) {
    last_task = d;
    busy += d;
  }
};

// The actors that run a role's tasks, one a slot; none: the role's own actor runs them.
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
  void wake();

  void hand_to_role(envelope& e);  // on(), then its effects; catches. Leaves nothing in `e`
  void tell_finished(std::uint64_t token);
  void perform();
  void perform(send_effect& x);
  void perform(run_effect& x);
  void perform(timer_effect& x);
  void perform(cancel_effect& x);
  void perform(event_effect& x);
  void perform(store_effect& x);
  void perform(shared_effect& x);
  void perform(stop_effect& x);
  void cross_to(envelope& e, device& to);
  device& leaving();

  void pump();
  bool waits(const run_effect& r) const;  // gives way to sub-solvers
  void run_next();
  void continue_later();

  void fail(const std::string& what);
  void fail_of_task(const task_answer& a);
  void note_change(time_point now);
  void publish(time_point now);

  void wake_at(time_point due);

  std::shared_ptr<hosted_job> job_;
  seat seat_;  // without its value, which is role_
  std::shared_ptr<role> role_;
  std::shared_ptr<device> lane_;     // of the one slot whose tasks run here
  std::shared_ptr<device> leaving_;  // the lane of what crosses to other devices
  sub_solvers solvers_;
  effects out_;

  own_tasks tasks_;
  work_turn turn_;
  bool pump_posted_ = false;
  timers timers_;

  std::optional<std::string> failure_;
  bool stopping_ = false;
  std::uint64_t step_ = 0;  // of the message last handled: says where an error happened
  role_tally tally_;
};

}  // namespace troupe

TROUPE_LOCAL_MESSAGE(troupe::envelope)
TROUPE_LOCAL_MESSAGE(troupe::pump_tasks)
TROUPE_LOCAL_MESSAGE(troupe::publish_now)
TROUPE_LOCAL_MESSAGE(troupe::timer_wake)
