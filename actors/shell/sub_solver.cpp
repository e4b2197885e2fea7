#include "actors/shell/sub_solver.hpp"

namespace troupe {

job_answer run_job(const hosted_job& j, role_id id, std::string_view name, const run_effect& r) {
  job_answer answer;
  answer.token = r.token;
  answer.begin = j.now();
  try {
    job_context context{*j.node.dev};
    r.work(context);
  } catch (...) {
    answer.error = std::string(r.cost.kind) + ": " + current_exception_text();
  }
  answer.end = j.now();
  if (j.node.tracing.load(std::memory_order_relaxed)) {
    j.node.trace({j.id, id, name, r.cost.kind, r.slot, answer.begin, answer.end});
  }
  return answer;
}

sub_solver::sub_solver(caf::actor_config& c, std::shared_ptr<hosted_job> j, caf::actor owner, solver_queue& queue, role_id id,
                       std::string name)
    : compat::base_actor(c), job_(std::move(j)), owner_(std::move(owner)), queue_(queue), id_(id), role_name_(std::move(name)) {
  compat::ignore_unknown(*this);
}

caf::behavior sub_solver::make_behavior() {
  return {[this](const job_request& r) {
    if (job_->ended.load(std::memory_order_relaxed)) return;
    queue_.begun(*job_);
    job_answer a = run_job(*job_, id_, role_name_, r.run);
    queue_.finished(*job_);
    compat::post(owner_, std::move(a), context());
  }};
}

bool sub_solver::cleanup(caf::error&& reason, caf::execution_unit* where) {
  const bool first = compat::base_actor::cleanup(std::move(reason), where);
  owner_ = nullptr;
  if (auto j = std::move(job_)) j->left();
  return first;
}

}  // namespace troupe
