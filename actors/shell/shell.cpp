#include "actors/shell/shell.hpp"

#include <algorithm>
#include <utility>

#include "ops/device.hpp"
#include "runtime/messages/crossing.hpp"

namespace troupe {

role_actor::role_actor(caf::actor_config& c, std::shared_ptr<hosted_job> j, seat s)
    : compat::base_actor(c),
      job_(std::move(j)),
      seat_(std::move(s)),
      role_(std::move(seat_.value)),
      stream_(seat_.slots > 1 ? nullptr : job_->make_stream(seat_.id)) {
  compat::ignore_unknown(*this);
}

caf::behavior role_actor::make_behavior() {
  if (seat_.slots > 1) solvers_.spawn(*this, job_, seat_);
  publish(job_->now());
  return {
      [this](envelope& e) { receive(e); },  // mutable without a copy by CAF: each message has one receiver
      [this](const pump_tasks&) {
        pump_posted_ = false;
        pump();
      },
      [this](const task_answer& a) { answer(a); },
      [this](const publish_now&) {
        job_->entries[index_of(seat_.id)]->answered();
        if (tally_.changed) publish(job_->now());
      },
  };
}

// CAF's quantum counts messages; work_turn limits time as well, so that other roles run between the
// tasks of a role with long tasks.
caf::resumable::resume_result role_actor::resume(caf::execution_unit* where, size_t throughput) {
  turn_.begin();
  for (size_t left = std::min(throughput, message_slice);;) {
    const auto r = compat::base_actor::resume(where, 1);
    if (r != resume_later || turn_.yields() || --left == 0) return r;
  }
}

bool role_actor::cleanup(caf::error&& reason, caf::execution_unit* where) {
  const bool first = compat::base_actor::cleanup(std::move(reason), where);
  end_stream(stream_);
  end_stream(leaving_);
  solvers_.stop();
  tasks_.forget();
  out_.clear();
  if (job_ && job_->log && role_ && !failure_) {
    try {
      job_->log->closed(seat_.id, role_->status());
    } catch (...) {
      // Without it, readers use the status that the role published last.
    }
  }
  role_.reset();
  if (auto j = std::move(job_)) j->left();
  return first;
}

// --- sub-solvers

void sub_solvers::spawn(role_actor& owner, const std::shared_ptr<hosted_job>& j, const seat& s) {
  queues = std::vector<solver_queue>(s.slots);
  for (auto& q : queues)
    actors.push_back(owner.spawn<sub_solver>(j, caf::actor{&owner}, q, s.id, s.name, static_cast<std::uint32_t>(actors.size())));
}

void sub_solvers::run(task_request&& r, hosted_job& j, caf::execution_unit* where) {
  const auto slot = r.run.slot % actors.size();
  queues[slot].given(j);
  compat::post(actors[slot], std::move(r), where);
}

void sub_solvers::stop() {
  for (auto& a : actors) compat::ask_to_exit(a);
  actors.clear();
}

// --- incoming messages

void role_actor::receive(envelope& e) {
  if (!job_->admits(e.h)) {
    job_->node.old_incarnation.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  hand_to_role(e);
  if (!pump_posted_) pump();
}

void role_actor::answer(const task_answer& a) {
  if (solvers_.actors.empty()) job_->entries[index_of(seat_.id)]->task_over(0);
  tasks_.over_there();
  tally_.busy += a.end - a.begin;
  if (!a.error.empty()) {
    fail_of_task(a);
  } else if (!failure_) {
    tell_finished(a.token);
  }
  if (!pump_posted_) pump();
}

void role_actor::tell_finished(std::uint64_t token) {
  envelope e;
  e.h.job = job_->id;
  e.h.dst = seat_.id;
  e.body = finished{token};
  hand_to_role(e);
}

void role_actor::hand_to_role(envelope& e) {
  if (failure_ || stopping_ || job_->ended.load(std::memory_order_relaxed)) {
    if (failure_) job_->node.to_failed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ++tally_.messages;
  step_ = e.h.step;
  if (std::holds_alternative<adopt>(e.body)) seat_.gives_way = false;  // the new mode may not wait for its workers
  const time_point now = job_->now();
  if (job_->log) job_->log->handed(seat_.id, e, now);
  if (!std::holds_alternative<finished>(e.body)) job_->record(activity_of_message(activity::kind_of::received, e), now);
  try {
    role_->on(e, now, out_);
    e.body = finished{};
    perform();
  } catch (...) {
    fail(current_exception_text());
  }
  note_change(now);
}

// --- effects

void role_actor::perform() {
  for (auto& x : out_.list()) std::visit([this](auto& one) { perform(one); }, x);
  out_.clear();
}

void role_actor::perform(send_effect& x) {
  envelope& e = x.e;
  e.h.job = job_->id;
  if (e.h.src == no_role) e.h.src = seat_.id;
  if (e.h.src == seat_.id) e.h.incarnation = job_->plan_generation, e.h.trace = ++tally_.sent;
  job_->record(activity_of_message(activity::kind_of::sent, e), job_->now());
  const std::uint32_t to = index_of(e.h.dst);
  if (to < job_->handles.size()) {
    if (const auto& local = job_->handles[to]) {
      cross_to(e, job_->device_of(e.h.dst));
      return compat::post(local, std::move(e), context());
    }
    const std::uint32_t node = job_->node_of[to];
    if (node != job_->me && job_->node.callbacks.on_remote) {
      cross_to(e, job_->device_of(seat_.id).host());
      return job_->node.callbacks.on_remote(node, std::move(e));
    }
  }
  job_->node.unknown_role.fetch_add(1, std::memory_order_relaxed);
}

device& role_actor::leaving() {
  if (!leaving_) leaving_ = job_->make_stream(seat_.id);
  return leaving_ ? *leaving_ : job_->device_of(seat_.id);
}

void role_actor::cross_to(envelope& e, device& to) {
  if (crosses(e, job_->device_of(seat_.id), to)) cross(e, leaving(), to);
  freeze(e);
}

void role_actor::perform(run_effect& x) {
  if (solvers_.actors.empty()) {
    tasks_.add(std::move(x));
  } else {
    const auto packet = role_->packet_of_task(x.token);
    solvers_.run({std::move(x), role_, packet}, *job_, context());
  }
}

void role_actor::perform(event_effect& x) {
  if (job_->node.callbacks.on_event) job_->node.callbacks.on_event(job_->id, x);
}

void role_actor::perform(store_effect& x) {
  for (auto& [name, value] : x.named) {
    if (!value.frozen()) value.freeze();
  }
  if (job_->node.callbacks.on_store) job_->node.callbacks.on_store(job_->id, x);
}

// Accesses the parameters of Hogwild at once, without a mailbox. `finished` is sent as a message,
// so the role handles the messages that already wait first.
void role_actor::perform(shared_effect& x) {
  if (x.kind != shared_effect::kind_of::read) bring_home(*x.value, leaving());
  job_->parameters.perform(x, job_->device_of(seat_.id).host());
  envelope e;
  e.h.job = job_->id;
  e.h.src = e.h.dst = seat_.id;
  e.h.incarnation = job_->plan_generation;
  e.body = finished{x.token};
  compat::post(caf::actor{this}, std::move(e), context());
}

void role_actor::perform(stop_effect&) { stopping_ = true; }

// --- tasks that run in this actor

void role_actor::pump() {
  for (;;) {
    if (const auto token = tasks_.take_ran()) tell_finished(*token);
    if (!tasks_.can_begin() || job_->ended.load(std::memory_order_relaxed)) break;
    if (turn_.over() || waits(tasks_.next())) {
      turn_.yield();
      return continue_later();
    }
    run_next();
    if (tasks_.has_ran() && !mailbox().empty()) return continue_later();
  }
  if (stopping_) quit();
}

bool role_actor::waits(const run_effect& r) const {
  constexpr double long_one = 16 << 20;  // bytes; smaller tasks end before another thread could take over
  return seat_.gives_way && r.cost.bytes >= long_one && job_->waiting.load(std::memory_order_relaxed) > 0;
}

void role_actor::run_next() {
  run_effect r = tasks_.take();
  if (tally_.changed && tally_.last_task >= publish_every / 2)
    publish(job_->now());  // the role cannot publish until this task is over
  const auto ran = run_task(*job_, {stream_.get(), seat_.id, seat_.name, 0}, r, role_->packet_of_task(r.token), caf::actor{this});
  if (!ran) return tasks_.goes_on_there();
  const task_answer& a = *ran;
  tally_.worked(a.end - a.begin);
  turn_.worked(a.begin, a.end);
  if (a.error.empty()) {
    tasks_.ran(a.token);
  } else {
    fail_of_task(a);
  }
}

void role_actor::continue_later() {
  pump_posted_ = true;
  compat::post(caf::actor{this}, pump_tasks{}, context());
}

// --- failures and the monitor

void role_actor::fail_of_task(const task_answer& a) {
  if (failure_) return;
  if (job_->log) job_->log->task_failed(seat_.id, a.token, step_, job_->now());
  fail(a.error);
}

void role_actor::fail(const std::string& what) {
  if (failure_) return;
  if (job_->log) job_->log->failed(seat_.id, what);
  const role_failure failure{seat_.name, what};
  failure_ = failure.text();
  out_.clear();
  tasks_.forget();
  event_effect e{step_, error_event{*failure_, {}, {}, failure}};
  try {
    perform(e);
  } catch (...) {
    // The event callback itself failed. The monitor still shows the role's failure.
  }
  publish(job_->now());
}

void role_actor::note_change(time_point now) {
  if (now - tally_.published_at >= publish_every) {
    publish(now);
  } else if (!tally_.changed) {
    tally_.changed = true;
    job_->entries[index_of(seat_.id)]->touched();
  }
}

void role_actor::publish(time_point now) {
  role_status s;
  if (failure_) {
    s.waits_for = "nothing, it failed: " + *failure_;
  } else {
    try {
      s = role_->status();
      s.dropped = role_->dropped();
    } catch (...) {
      return fail("status: " + current_exception_text());
    }
  }
  tally_.changed = false;
  tally_.published_at = now;
  job_->record(activity_of_status(seat_.id, s), now);
  job_->entries[index_of(seat_.id)]->put(std::move(s), tally_.messages, tally_.busy, job_->began + now);
}

}  // namespace troupe
