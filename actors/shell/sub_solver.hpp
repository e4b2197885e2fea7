// A sub-solver: runs the tasks of one slot of a stage, one after the other, and answers each.
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

// Role actor -> sub-solver. `owner` keeps the role alive while its task runs: a task may use what
// the role owns.
struct task_request {
  run_effect run;
  std::shared_ptr<const role> owner;
  std::optional<header> packet;  // that it is for
};

// Sub-solver -> role actor.
struct task_answer {
  std::uint64_t token = 0;
  time_point begin{}, end{};
  std::string error;  // of the exception that ended it; empty: done
};

// Where a task runs: a slot of a role, on a lane (null: the role's device serves all).
struct task_place {
  device* stream = nullptr;
  role_id id = no_role;
  std::string_view name;
  std::uint32_t slot = 0;
};

// Runs `r` now, on this thread; reports it to the monitor and to a trace. Never throws. Nothing:
// the lane has more to do before the task is over, and says so to `owner` by a task_answer; who
// hears that tells the monitor.
std::optional<task_answer> run_task(const hosted_job& j, const task_place& at, const run_effect& r,
                                    const std::optional<header>& packet, const caf::actor& owner);

// The tasks that a sub-solver has been given and has not finished; kept so that hosted_job::waiting
// is right. Any thread.
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
  // `queue` is the owner's.
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
  std::shared_ptr<device> lane_;
  // Tasks that came while the lane was not done with the one before (tasks of one slot never
  // overlap).
  std::deque<task_request> later_;
  bool busy_ = false;
  std::shared_ptr<const role> running_;  // whose task it is
};

}  // namespace troupe

TROUPE_LOCAL_MESSAGE(troupe::task_request)
TROUPE_LOCAL_MESSAGE(troupe::task_answer)
