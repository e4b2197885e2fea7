// The shell: one CAF actor that hosts one role, and turns its effects into sends, timers and tasks. Written once, for every role.
//
// Invariants (see runtime/role.hpp for what a host owes a role):
//   * Effects happen in their order, except that a task starts after the other effects of the same on(): messages do not wait for
//     the task that was asked for beside them.
//   * With one slot, tasks run here, in order. A message that arrived while a task ran reaches the role before that task's
//     `finished`, so that the role chooses its next task knowing everything.
//   * After `time_slice` of tasks the actor goes to the end of the scheduler's queue, and looks at its mailbox before it goes on.
//   * A role that gives way goes there too, before a long task, while a sub-solver has a task that no thread has begun.
//   * An exception of the role or of its task becomes the event "error", and the role hears nothing more.
//   * A message is gone before the effects of its on() take place: what it brought is then the role's alone, or whoever's it has been sent
//     to, and can be worked on in place (tensor::reclaim).
// Cost: one allocation per message sent (CAF's mailbox element, which holds the envelope).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/shell/hosted_job.hpp"
#include "actors/shell/sub_solver.hpp"
#include "runtime/role.hpp"

namespace troupe {

constexpr std::chrono::microseconds time_slice{500};
constexpr size_t message_slice = 64;  // also goes to the end of the queue after so many messages

struct pump_tasks {};   // to self: go on with the tasks that wait
struct publish_now {};  // monitor -> role actor
struct timer_wake {};   // to self: a timer may be due

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
  void note_change(time_point now);
  void publish(time_point now);

  struct pending_timer {
    std::uint64_t timer;
    time_point due;
  };
  void wake_at(time_point due);

  std::shared_ptr<hosted_job> job_;
  const role_id id_;
  const std::uint32_t incarnation_;
  const std::uint32_t slots_;
  bool gives_way_;
  const std::string name_;
  std::shared_ptr<role> role_;
  std::shared_ptr<device> lane_;      // of the one slot whose tasks run here
  std::shared_ptr<device> leaving_;   // the lane of what crosses to other devices
  bool waits_for_lane_ = false;       // a task that ran here is not over there
  std::vector<solver_queue> queues_;  // of the sub-solvers
  std::vector<caf::actor> solvers_;   // empty: tasks run here
  effects out_;

  std::vector<run_effect> tasks_;  // [next_task_, end) wait to run here
  std::size_t next_task_ = 0;
  std::optional<std::uint64_t> ran_;  // a task has run whose `finished` waits for the mailbox
  bool pump_posted_ = false;
  bool yield_ = false;
  std::optional<time_point> slice_began_;  // when the first task began since the scheduler resumed us
  bool slice_over_ = false;

  std::vector<pending_timer> timers_;
  std::vector<time_point> wakes_;  // latest first: wake-ups that CAF's clock holds. A timer needs one at or before it, no more

  bool failed_ = false;
  bool stopping_ = false;
  std::string failure_;
  std::uint64_t step_ = 0;  // of the message last handled: says where an error happened

  std::uint64_t messages_ = 0;
  duration busy_{};
  duration last_task_{};
  time_point published_at_{};
  bool changed_ = false;
};

}  // namespace troupe

TROUPE_LOCAL_MESSAGE(troupe::envelope)
TROUPE_LOCAL_MESSAGE(troupe::pump_tasks)
TROUPE_LOCAL_MESSAGE(troupe::publish_now)
TROUPE_LOCAL_MESSAGE(troupe::timer_wake)
