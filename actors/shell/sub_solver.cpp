#include "actors/shell/sub_solver.hpp"

#include "ops/device.hpp"

namespace troupe {

std::optional<task_answer> run_task(const hosted_job& j, const task_place& at, const run_effect& r,
                                    const std::optional<header>& packet, const caf::actor& owner) {
  auto& dev = at.stream != nullptr ? *at.stream : j.device_of(at.id);
  auto& entry = *j.entries[index_of(at.id)];
  task_answer answer;
  answer.token = r.token;
  answer.begin = j.now();
  entry.task_begun(at.slot, r.cost.kind, packet, j.began + answer.begin);
  bool over = true;
  try {
    task_context context{dev};
    dev.begin_task();
    r.work(context);
    over = dev.end_task();
  } catch (...) {
    over = dev.end_task();
    answer.error = std::string(r.cost.kind) + ": " + current_exception_text();
  }
  answer.end = j.now();
  j.record(activity_of_task(at.id, r.cost.kind, packet, answer.end - answer.begin), answer.begin);
  if (over) {
    entry.task_over(at.slot);
    return answer;
  }
  dev.when_over([owner, answer, kind = std::string(r.cost.kind)](const std::string& failure) mutable {
    if (answer.error.empty() && !failure.empty()) answer.error = kind + ": " + failure;
    compat::post(owner, answer);
  });
  return std::nullopt;
}

void end_stream(std::shared_ptr<device>& stream) {
  if (stream) stream->wait_over();
  stream.reset();
}

sub_solver::sub_solver(caf::actor_config& c, std::shared_ptr<hosted_job> j, caf::actor owner, solver_queue& queue, role_id id,
                       std::string name, std::uint32_t slot)
    : compat::base_actor(c),
      job_(std::move(j)),
      owner_(std::move(owner)),
      queue_(queue),
      id_(id),
      role_name_(std::move(name)),
      slot_(slot) {
  stream_ = job_->make_stream(id_);
  compat::ignore_unknown(*this);
}

caf::behavior sub_solver::make_behavior() {
  return {[this](const task_request& r) { busy_ ? later_.push_back(r) : take(r); },
          [this](const task_answer& a) {  // sent by this slot's stream
            job_->entries[index_of(id_)]->task_over(slot_);
            compat::post(owner_, a, context());
            busy_ = false;
            while (!busy_ && !later_.empty()) {
              const auto next = std::move(later_.front());
              later_.pop_front();
              take(next);
            }
          }};
}

void sub_solver::take(const task_request& r) {
  if (job_->ended.load(std::memory_order_relaxed)) return;
  queue_.begun(*job_);
  auto a = run_task(*job_, {stream_.get(), id_, role_name_, slot_}, r.run, r.packet, caf::actor{this});
  queue_.finished(*job_);
  busy_ = !a;
  running_ = busy_ ? r.owner : nullptr;
  if (a) compat::post(owner_, std::move(*a), context());
}

bool sub_solver::cleanup(caf::error&& reason, caf::execution_unit* where) {
  const bool first = compat::base_actor::cleanup(std::move(reason), where);
  end_stream(stream_);
  later_.clear();
  running_.reset();
  owner_ = nullptr;
  if (auto j = std::move(job_)) j->left();
  return first;
}

}  // namespace troupe
