#include "runtime/cluster/controller/job_run.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::control {

void job_run::run(instant now) {
  assert(at() == phase::gathering || at() == phase::preparing);
  state_ = phases::running{now, false, 0, now, task_watch(), straggler_watch(), link_watch(), {}};
}

void job_run::end(instant deadline, std::set<std::string> nodes) {
  assert(at() < phase::ending);
  state_ = phases::ending{deadline, std::move(nodes), {}};
}

void job_run::finish() {
  assert(at() == phase::ending && awaited().empty());
  state_ = phases::over{};
}

bool job_run::overdue(instant now, std::chrono::seconds more) const {
  return std::visit(
      [&](const auto& s) {
        if constexpr (requires { s.deadline; })
          return now > s.deadline + more;
        else
          return false;
      },
      state_);
}

const std::set<std::string>& job_run::awaited() const {
  static const std::set<std::string> none;
  if (const auto* p = std::get_if<phases::preparing>(&state_)) return p->awaited;
  if (const auto* e = std::get_if<phases::ending>(&state_)) return e->awaited;
  return none;
}

void job_run::wait_until(instant deadline) {
  if (auto* g = std::get_if<phases::gathering>(&state_)) g->deadline = std::max(g->deadline, deadline);
  if (auto* p = std::get_if<phases::preparing>(&state_)) p->deadline = std::max(p->deadline, deadline);
}

bool job_run::answered(const std::string& node) {
  if (auto* p = std::get_if<phases::preparing>(&state_)) return p->awaited.erase(node) > 0;
  if (auto* e = std::get_if<phases::ending>(&state_)) return e->awaited.erase(node) > 0;
  return false;
}

void job_run::await_no_more() {
  if (auto* e = std::get_if<phases::ending>(&state_)) e->awaited.clear();
}

instant job_run::begun() const {
  const auto* r = std::get_if<phases::running>(&state_);
  return r ? r->begun : instant{};
}

void job_run::pause(bool yes) {
  if (auto* r = std::get_if<phases::running>(&state_)) r->paused = yes;
}

bool job_run::paused() const {
  const auto* r = std::get_if<phases::running>(&state_);
  return r && r->paused;
}

void job_run::progressed(instant now) {
  if (auto* r = std::get_if<phases::running>(&state_)) r->progress = now;
}

bool job_run::stalled(std::uint64_t handled, bool computes, instant now) {
  auto* r = std::get_if<phases::running>(&state_);
  if (!r) return false;
  if (handled != r->handled || r->paused || computes) {
    r->handled = handled;
    r->progress = now;
  }
  return now - r->progress >= stall_after;
}

bool job_run::look_due(instant now, std::chrono::milliseconds every) {
  auto* r = std::get_if<phases::running>(&state_);
  if (!r || now - r->looked < every) return false;
  r->looked = now;
  return true;
}

task_watch::findings job_run::look(const std::vector<watched_task>& tasks, instant now) {
  auto* r = std::get_if<phases::running>(&state_);
  return r ? r->tasks.look(tasks, now) : task_watch::findings{};
}

std::vector<straggler_event> job_run::look(const std::vector<role_load>& loads, const std::vector<link_load>& links, instant now) {
  std::vector<straggler_event> found;
  auto* r = std::get_if<phases::running>(&state_);
  if (!r) return found;
  for (const auto& s : r->stragglers.look(loads, now)) found.push_back(event_of(s));
  for (const auto& l : r->links.look(links, r->stragglers.step_seconds(), now)) found.push_back(event_of(l));
  return found;
}

void job_run::stop() {
  if (!stop_) stop_.emplace();
}

void job_run::preempt(const std::string& why) {
  if (!stop_) stop_ = why;
}

const std::string& job_run::preempted() const {
  static const std::string no;
  return stop_ ? *stop_ : no;
}

void job_run::wrote_post_mortem(const std::string& node, const std::string& folder) {
  if (auto* e = std::get_if<phases::ending>(&state_)) e->post_mortems.insert(node + ":" + folder);
}

std::string job_run::post_mortems() const {
  std::string text;
  if (const auto* e = std::get_if<phases::ending>(&state_))
    for (const auto& f : e->post_mortems) text += (text.empty() ? "" : ", ") + f;
  return text;
}

}  // namespace troupe::control
