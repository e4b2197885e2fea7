#include "actors/shell/shell.hpp"

#include <algorithm>
#include <utility>

#include "ops/device.hpp"
#include "runtime/messages/crossing.hpp"

namespace troupe {

role_actor::role_actor(caf::actor_config& c, std::shared_ptr<hosted_job> j, seat s)
    : compat::base_actor(c),
      job_(std::move(j)),
      id_(s.id),
      incarnation_(s.incarnation),
      slots_(s.slots),
      gives_way_(s.gives_way),
      name_(std::move(s.name)),
      role_(std::move(s.value)),
      lane_(slots_ > 1 ? nullptr : job_->device_of(id_).make_lane()) {
  compat::ignore_unknown(*this);
}

caf::behavior role_actor::make_behavior() {
  if (slots_ > 1) {
    queues_ = std::vector<solver_queue>(slots_);
    for (auto& q : queues_) solvers_.push_back(spawn<sub_solver>(job_, caf::actor{this}, q, id_, name_));
  }
  publish(job_->now());
  return {
      [this](envelope& e) { receive(e); },  // ours alone: nobody sends a message twice, so that CAF does not copy it
      [this](const pump_tasks&) {
        pump_posted_ = false;
        pump();
      },
      [this](const task_answer& a) { answer(a); },
      [this](const timer_wake&) { wake(); },
      [this](const publish_now&) {
        job_->rows[index_of(id_)]->answered();
        if (changed_) publish(job_->now());
      },
  };
}

// The scheduler's quantum counts messages; ours is time, so that a role with long tasks lets the others in between them.
caf::resumable::resume_result role_actor::resume(caf::execution_unit* where, size_t throughput) {
  slice_began_.reset();
  slice_over_ = false;
  yield_ = false;
  for (size_t left = std::min(throughput, message_slice);;) {
    const auto r = compat::base_actor::resume(where, 1);
    if (r != resume_later || yield_ || --left == 0) return r;
  }
}

bool role_actor::cleanup(caf::error&& reason, caf::execution_unit* where) {
  const bool first = compat::base_actor::cleanup(std::move(reason), where);
  if (lane_) lane_->wait_over();  // what it has to tell is told to the role
  for (auto& s : solvers_) compat::ask_to_exit(s);
  solvers_.clear();
  tasks_.clear();
  out_.clear();
  role_.reset();
  if (auto j = std::move(job_)) j->left();
  return first;
}

// --- what comes in

void role_actor::receive(envelope& e) {
  if (!job_->admits(e.h.src, e.h.incarnation)) {
    job_->node.old_incarnation.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (e.h.incarnation >= job_->first_incarnation) e.h.incarnation -= job_->first_incarnation;  // in this plan
  hand_to_role(e);
  if (!pump_posted_) pump();
}

void role_actor::answer(const task_answer& a) {
  waits_for_lane_ = false;
  busy_ += a.end - a.begin;
  if (!a.error.empty()) {
    fail(a.error);
  } else if (!failed_) {
    tell_finished(a.token);
  }
  if (!pump_posted_) pump();
}

// CAF's clock cannot forget: each wake-up stays there, with a reference to us, until it is due. So a timer that is set anew again
// and again uses the wake-up that is there already.
void role_actor::wake() {
  if (!wakes_.empty()) wakes_.pop_back();
  const time_point now = job_->now();
  for (;;) {
    auto next = std::min_element(timers_.begin(), timers_.end(), [](const auto& a, const auto& b) { return a.due < b.due; });
    if (next == timers_.end()) break;
    if (next->due > now) {
      wake_at(next->due);
      break;
    }
    envelope e;
    e.h.job = job_->id;
    e.h.dst = id_;
    e.body = timer_fired{next->timer};
    timers_.erase(next);
    hand_to_role(e);
  }
  if (!pump_posted_) pump();
}

void role_actor::wake_at(time_point due) {
  if (!wakes_.empty() && wakes_.back() <= due) return;
  wakes_.push_back(due);
  compat::post_after(caf::actor{this}, due - job_->now(), timer_wake{});
}

void role_actor::tell_finished(std::uint64_t token) {
  envelope e;
  e.h.job = job_->id;
  e.h.dst = id_;
  e.body = finished{token};
  hand_to_role(e);
}

void role_actor::hand_to_role(envelope& e) {
  if (failed_ || stopping_ || job_->ended.load(std::memory_order_relaxed)) {
    if (failed_) job_->node.to_failed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ++messages_;
  step_ = e.h.step;
  if (std::holds_alternative<adopt>(e.body)) gives_way_ = false;  // the new mode may not wait for its workers
  const time_point now = job_->now();
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
  if (e.h.src == no_role) e.h.src = id_;
  if (e.h.src == id_) e.h.incarnation = incarnation_;
  const std::uint32_t to = index_of(e.h.dst);
  if (to < job_->handles.size()) {
    if (const auto& local = job_->handles[to]) {
      cross_to(e, job_->device_of(e.h.dst));
      return compat::post(local, std::move(e), context());
    }
    const std::uint32_t node = job_->node_of[to];
    if (node != job_->me && job_->node.callbacks.on_remote) {
      cross_to(e, job_->device_of(id_).host());
      return job_->node.callbacks.on_remote(node, std::move(e));
    }
  }
  job_->node.unknown_role.fetch_add(1, std::memory_order_relaxed);
}

device& role_actor::leaving() {
  if (!leaving_) leaving_ = job_->device_of(id_).make_lane();
  return leaving_ ? *leaving_ : job_->device_of(id_);
}

void role_actor::cross_to(envelope& e, device& to) {
  if (crosses(job_->device_of(id_), to)) cross(e, leaving(), to);
  freeze(e);
}

void role_actor::perform(run_effect& x) {
  if (solvers_.empty()) {
    tasks_.push_back(std::move(x));
  } else {
    const auto slot = x.slot % solvers_.size();
    queues_[slot].given(*job_);
    compat::post(solvers_[slot], task_request{std::move(x), role_}, context());
  }
}

void role_actor::perform(timer_effect& x) {
  const time_point due = job_->now() + x.after;
  const auto i = std::find_if(timers_.begin(), timers_.end(), [&](const pending_timer& p) { return p.timer == x.timer; });
  if (i == timers_.end()) {
    timers_.push_back({x.timer, due});
  } else {
    i->due = due;
  }
  wake_at(due);
}

void role_actor::perform(cancel_effect& x) {
  std::erase_if(timers_, [&](const pending_timer& p) { return p.timer == x.timer; });
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

// Here and now: the parameters of Hogwild are not behind a mailbox. `finished` comes as a message, behind those that wait.
void role_actor::perform(shared_effect& x) {
  if (x.kind != shared_effect::kind_of::read) bring_home(*x.value, leaving());
  job_->parameters.perform(x, job_->device_of(id_).host());
  envelope e;
  e.h.job = job_->id;
  e.h.src = e.h.dst = id_;
  e.h.incarnation = incarnation_;
  e.body = finished{x.token};
  compat::post(caf::actor{this}, std::move(e), context());
}

void role_actor::perform(stop_effect&) { stopping_ = true; }

// --- tasks that run here

void role_actor::pump() {
  for (;;) {
    if (ran_) tell_finished(*std::exchange(ran_, std::nullopt));
    if (waits_for_lane_ || next_task_ == tasks_.size() || job_->ended.load(std::memory_order_relaxed)) break;
    if (slice_over_ || waits(tasks_[next_task_])) {
      yield_ = true;
      return continue_later();
    }
    run_next();
    if (ran_ && !mailbox().empty()) return continue_later();
  }
  if (stopping_) quit();
}

bool role_actor::waits(const run_effect& r) const {
  constexpr double long_one = 16 << 20;  // bytes: what is over sooner than others can take a thread is not worth a turn
  return gives_way_ && r.cost.bytes >= long_one && job_->ready.load(std::memory_order_relaxed) > 0;
}

void role_actor::run_next() {
  run_effect r = std::move(tasks_[next_task_++]);
  if (next_task_ * 2 >= tasks_.size()) {  // keeps the memory, and a queue that never empties short
    tasks_.erase(tasks_.begin(), tasks_.begin() + static_cast<std::ptrdiff_t>(next_task_));
    next_task_ = 0;
  }
  if (changed_ && last_task_ >= publish_every / 2) publish(job_->now());  // nobody hears of us until this task is over
  const auto ran = run_task(*job_, lane_.get(), id_, name_, r, caf::actor{this});
  if (!ran) {
    waits_for_lane_ = true;
    return;
  }
  const task_answer& a = *ran;
  last_task_ = a.end - a.begin;
  busy_ += last_task_;
  if (!slice_began_) slice_began_ = a.begin;
  slice_over_ = a.end - *slice_began_ >= time_slice;
  if (a.error.empty()) {
    ran_ = a.token;
  } else {
    fail(a.error);
  }
}

void role_actor::continue_later() {
  pump_posted_ = true;
  compat::post(caf::actor{this}, pump_tasks{}, context());
}

// --- failures and the monitor

void role_actor::fail(const std::string& what) {
  if (failed_) return;
  failed_ = true;
  failure_ = "role " + name_ + ": " + what;
  out_.clear();
  tasks_.clear();
  next_task_ = 0;
  ran_.reset();
  timers_.clear();
  event_effect e;
  e.kind = "error";
  e.step = step_;
  e.text = failure_;
  try {
    perform(e);
  } catch (...) {
    // The callback that is told of a role's failure has failed itself; the monitor still shows the failure.
  }
  publish(job_->now());
}

void role_actor::note_change(time_point now) {
  if (now - published_at_ >= publish_every) {
    publish(now);
  } else if (!changed_) {
    changed_ = true;
    job_->rows[index_of(id_)]->touched();
  }
}

void role_actor::publish(time_point now) {
  role_status s;
  if (failed_) {
    s.waits_for = "nothing: " + failure_;
  } else {
    try {
      s = role_->status();
    } catch (...) {
      return fail("status: " + current_exception_text());
    }
  }
  changed_ = false;
  published_at_ = now;
  job_->rows[index_of(id_)]->put(std::move(s), messages_, busy_, job_->began + now);
}

}  // namespace troupe
