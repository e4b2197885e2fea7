// A sub-solver actor: runs the tasks of one slot of a stage, one after the other, and replies to
// each with a task_answer.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "actors/shell/hosted_job.hpp"
#include "runtime/base/exception_text.hpp"
#include "runtime/role.hpp"

namespace troupe {

// Role actor -> sub-solver. `owner` keeps the role alive while its task runs, because a task may
// use data that the role owns.
struct task_request {
  run_effect run;
  std::shared_ptr<const role> owner;
  std::optional<header> packet;  // that the task works on
};

// Sub-solver -> role actor.
struct task_answer {
  std::uint64_t token = 0;
  time_point begin{}, end{};
  std::string error;  // text of the exception that ended the task; empty: done
};

// Where a task runs: a slot of a role, on a device stream (null: on the role's device itself).
struct task_place {
  device* stream = nullptr;
  role_id id = no_role;
  std::string_view name;
  std::uint32_t slot = 0;
};

// Runs `r` on this thread; records it in the monitor and the record of activities. Never throws.
// Nullopt: the device stream has not finished the task; it sends a task_answer to `owner` when it
// has, and the owner updates the monitor.
std::optional<task_answer> run_task(const hosted_job& j, const task_place& at, const run_effect& r,
                                    const std::optional<header>& packet, const caf::actor& owner);

// For the end of an actor: waits until its last task_answer is posted, and drops the stream. The
// device's own thread may hold the actor for a moment longer.
void end_stream(std::shared_ptr<device>& stream);

// Counts the tasks that a sub-solver was given and has not finished, to maintain
// hosted_job::waiting. Threads: any.
class solver_queue {
 public:
  void given(hosted_job& j) {
    if (count_.fetch_add(1, std::memory_order_relaxed) == 0) j.waiting.fetch_add(1, std::memory_order_relaxed);
  }
  void begun(hosted_job& j) { j.waiting.fetch_sub(1, std::memory_order_relaxed); }
  void finished(hosted_job& j) {
    if (count_.fetch_sub(1, std::memory_order_relaxed) > 1) j.waiting.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<int> count_{0};
};

class sub_solver final : public compat::base_actor {
 public:
  // `queue` belongs to the owner.
  sub_solver(caf::actor_config& c, std::shared_ptr<hosted_job> j, caf::actor owner, solver_queue& queue, role_id id,
             std::string name, std::uint32_t slot);
  caf::behavior make_behavior() override;
  bool cleanup(caf::error&& reason, caf::execution_unit* where) override;
  const char* name() const override { return "sub_solver"; }

 private:
  void take(const task_request& r);
  std::shared_ptr<hosted_job> job_;
  caf::actor owner_;
  solver_queue& queue_;
  role_id id_;
  std::string role_name_;
  std::uint32_t slot_;
  std::shared_ptr<device> stream_;
  // Tasks that arrived while the stream was busy with the previous one (tasks of one slot never
  // overlap).
  std::deque<task_request> later_;
  bool busy_ = false;
  std::shared_ptr<const role> running_;  // owner of the task on the stream; keeps it alive
};

}  // namespace troupe

TROUPE_LOCAL_MESSAGE(troupe::task_request)
TROUPE_LOCAL_MESSAGE(troupe::task_answer)
