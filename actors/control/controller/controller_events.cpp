// cluster_controller: events of running jobs, and commands to them.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/role_entries.hpp"
#include "actors/view/job_progress.hpp"

#include "runtime/messages/ids.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto stall_after = 120s;    // no role handled a message; as in embedded mode
constexpr auto says_so_timeout = 5s;  // a node's report of its tasks expires
constexpr std::size_t keep_steps = 256;
constexpr std::size_t keep_events = 2048;

}  // namespace

// --- events

void cluster_controller::on_event(const job_event& e, instant now, orders& out) {
  auto* j = find(e.job);
  if (!j || j->last || j->at != phase::running) return;
  if (j->stores > 0) {
    j->held.push_back(e);
    return;
  }
  take_event(*j, e, now, out);
}

void cluster_controller::take_event(job& j, job_event e, instant now, orders& out) {
  if (j.last) return;
  note_event(j.view, e.event);
  j.progress_at = now;
  // Returns true if the event is to be sent to the followers.
  const bool announced = std::visit(overloaded{
                                        [&](const step_event&) {
                                          if (std::exchange(j.begins, false)) out.push_back(drop_beginning{j.id});
                                          j.reached = 0;
                                          return true;
                                        },
                                        [&](const paused_event&) { return j.paused = true; },
                                        [&](const resumed_event&) { return j.paused = false, true; },
                                        [&](const set_event& s) {
                                          j.since.settings.push_back({s.setting.first, s.setting.second, e.event.step});
                                          note_set(j, out);
                                          return true;
                                        },
                                        [&](const mode_event& m) {
                                          set_mode(j.changes, m.mode);
                                          note_words(j, out);
                                          return true;
                                        },
                                        [&](const handover_refused_event& r) {
                                          if (!j.next || j.next->at != successor::phase::draining) return true;
                                          if (j.next->live) return nothing_is_left(j, r.message, now, out), false;
                                          drop_successor(j, out);
                                          e.event.what = refused_event{std::string(r.message)};
                                          return true;
                                        },
                                        [&](const checkpoint_event&) { return note_checkpoint(j, e.event, now), true; },
                                        [&](const done_event& d) {
                                          j.last = e;
                                          if (!j.preempted.empty() && d.stopped())
                                            j.last->event.what = preempted_event{j.kept, {}, {}, j.preempted};
                                          return end(j, now, out), false;
                                        },
                                        [&](const error_event& bad) {
                                          const auto where = bad.role ? bad.role->role : "coordinator";
                                          if (!bad.role || !restart_role(j, where, *bad.role, bad.message, now, out))
                                            fail(j, where, bad.message, now, out);
                                          return false;
                                        },
                                        [](const auto&) { return true; },
                                    },
                                    e.event.what);
  if (!announced) return;
  const auto* proposal = e.event.as<balance_event>();
  const auto packets = proposal && !j.back && !j.next && !j.stopping ? proposal->packets : std::vector<std::uint32_t>();
  say(j, std::move(e), out);
  if (!packets.empty()) wish(j, {balance_command{packets}}, now, out);
}

// The checkpoint's file, or why there is none, is in the oldest result.
void cluster_controller::note_checkpoint(job& j, event_effect& e, instant now) {
  const auto at = std::find_if(j.results.begin(), j.results.end(), [](const auto& s) { return s.what == kept_kind::checkpoint; });
  if (at == j.results.end()) return;
  if (at->error.empty()) {
    e.what = checkpoint_event{j.kept = at->path};
    j.kept_step = e.step;
    j.kept_at = now;
    if (j.stopping) j.unsaved.clear();
  } else {
    e.what = checkpoint_lost_event{"the checkpoint was not saved: " + at->error};
    if (j.stopping) j.unsaved = message_of(e);
  }
  j.results.erase(at);
}

void cluster_controller::say(job& j, job_event e, orders& out) {
  const bool step = e.event.is<step_event>();
  if (e.event.is<histogram_event>() || e.event.is<best_event>())  // for the run folder and the REPL
    return out.push_back(followed_event{std::move(e)});
  const message m = to_message(e);
  for (const auto& f : j.followers)
    if (!step || !slow_.contains(f)) out.push_back(to_peer{f, m});
  out.push_back(followed_event{e});
  auto& list = step ? j.steps : j.history;
  list.push_back(std::move(e));
  if (list.size() > (step ? keep_steps : keep_events)) list.pop_front();
}

void cluster_controller::refuse_command(job& j, const std::string& why, instant now, orders& out) {
  on_event({j.id, {j.view.step, refused_event{why}}}, now, out);
}

bool cluster_controller::crowded(std::uint32_t job_id) const {
  const auto* j = find(job_id);
  return j && j->stores >= 2 && j->at == phase::running && !j->stopping;
}

void cluster_controller::on_store_begun(std::uint32_t job_id) {
  if (auto* j = find(job_id)) ++j->stores;
}

void cluster_controller::on_stored(const stored& s, instant now, orders& out) {
  auto* j = find(s.job);
  if (!j) return;
  if (j->stores > 0) --j->stores;
  j->results.push_back(s);
  if (s.what == kept_kind::checkpoint && s.error.empty()) out.push_back(journal_line{journal_kept(number_of(j->id), s.path)});
  if (j->stores > 0) return;
  release_held(*j, now, out);
  finish(*j, now, out);
}

void cluster_controller::release_held(job& j, instant now, orders& out) {
  while (!j.held.empty() && !j.last) {
    auto e = std::move(j.held.front());
    j.held.pop_front();
    take_event(j, std::move(e), now, out);
  }
}

std::uint32_t cluster_controller::pending_stores() const {
  std::uint32_t n = 0;
  for (const auto& [id, j] : jobs_) n += j.stores;
  return n;
}

// A running task counts as progress while its node keeps reporting it. Overlong tasks are
// announced, a hung one ends the job or costs its node. Returns true if a task of the job runs.
bool cluster_controller::watch_tasks(job& j, instant now, orders& out) {
  std::vector<watched_task> running;
  for (const auto& [name, m] : members_) {
    if (!m.up || m.hung || now - m.reported > says_so_timeout) continue;
    for (const auto& r : m.last.roles)
      if (r.job == j.id && r.task.serial != 0) running.push_back({name, r.name, published_in(r).task});
  }
  const auto found = j.tasks.look(running, now);
  for (const auto& t : found.overlong) {
    out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + ": " + t.text()});
    say(j, {j.id, {j.view.step, slow_task_of(t)}}, out);
  }
  if (found.hung) lose_hung(j, found.hung->what.node, found.hung->text() + ", and is considered hung", now, out);
  return found.runs;
}

void cluster_controller::watch_progress(job& j, instant now, orders& out) {
  const bool computes = watch_tasks(j, now, out);
  if (j.at != phase::running) return;
  std::uint64_t handled = 0;
  for (const auto& [name, m] : members_)
    for (const auto& r : m.last.roles)
      if (r.job == j.id) handled += r.messages;
  if (handled != j.progress || j.paused || computes) {
    j.progress = handled;
    j.progress_at = now;
  }
  if (now - j.progress_at < stall_after) return;
  std::string text = "no role handled a message for 120 s";
  for (const auto& [name, m] : members_)
    for (const auto& r : m.last.roles)
      if (r.job == j.id && !r.waits_for.empty()) text += "; " + r.name + " waits for " + r.waits_for;
  fail(j, self_, text, now, out);
}

// --- commands

const cluster_controller::job* cluster_controller::find_for_command(std::uint32_t number) const {
  if (number == 0) return find(active_);
  for (const auto& [id, one] : jobs_)
    if (id == number || number_of(id) == number) return &one;
  return nullptr;
}

std::string cluster_controller::owner_of(std::uint32_t job_id) const {
  const auto* j = find(job_id);
  return j ? j->view.owner : std::string();
}

std::string cluster_controller::tell(const person& who, std::uint32_t number, const command& c, instant now, orders& out) {
  if (const auto* j = find_for_command(number))
    if (auto why = why_not_tell(who, j->view.id, j->view.owner, c); !why.empty()) return why;
  if (c.is<kill_command>()) return kill(who, number, now, out);
  return tell(number, c, now, out);
}

// Ends a job in any phase: no node is asked to reach a step boundary, and nothing is stored.
std::string cluster_controller::kill(const person& who, std::uint32_t number, instant now, orders& out) {
  auto* j = const_cast<job*>(find_for_command(number));
  if (!j) return number == 0 ? "no job runs" : "there is no job " + std::to_string(number);
  const auto named = "job " + std::to_string(j->view.id);
  if (j->at == phase::over) return named + " is over";
  if (j->last) return named + " is ending already";
  if (j->at == phase::checking || j->at == phase::receiving) return named + " is still being checked";
  fail(*j, self_, "killed by " + who.name, now, out);
  return {};
}

std::string cluster_controller::tell(std::uint32_t number, const command& c, instant now, orders& out) {
  auto* j = const_cast<job*>(find_for_command(number));
  if (!j) return number == 0 ? "no job runs" : "there is no job " + std::to_string(number);
  if (j->at == phase::queued && c.is<stop_command>()) {
    fail(*j, self_, "removed from the queue before it started", now, out);
    return {};
  }
  if (j->at == phase::over) return "job " + std::to_string(j->view.id) + " is over";
  if (j->at != phase::running) return "job " + std::to_string(j->view.id) + " has not started yet";
  if (amends(c)) return wish(*j, c, now, out), std::string();
  if (c.is<stop_command>()) j->stopping = true;
  if (c.is<pause_command>() || c.is<resume_command>()) {
    j->since.paused = c.is<pause_command>();
    note_set(*j, out);
  }
  tell_or_hold(*j, c, out);
  return {};
}

void cluster_controller::drain(instant now, orders& out) {
  if (std::exchange(draining_, true)) return;
  refuse_submissions(now, out);
  auto* j = find(active_);
  if (!j) return;
  const auto why = self_ + " shuts down; the job continues when it runs again";
  if (j->at == phase::running) {
    preempt(*j, why, out);
  } else if (j->at == phase::gathering || j->at == phase::preparing) {
    j->preempted = why;
    j->last = job_event{j->id, {j->view.step, preempted_event{{}, {}, {}, why}}};
    end(*j, now, out);
  }
}

// Stops the job at the next boundary, with a checkpoint. A job that a user has stopped is not
// preempted.
void cluster_controller::preempt(job& j, const std::string& why, orders& out) {
  if (!std::exchange(j.stopping, true)) j.preempted = why;
  tell_or_hold(j, {stop_command{}}, out);
}

void cluster_controller::slow(const std::string& client, bool yes) {
  if (yes)
    slow_.insert(client);
  else
    slow_.erase(client);
}

std::string cluster_controller::weights_of(std::uint32_t job_id) const {
  const auto* j = find(job_id);
  return j ? j->weights : std::string();
}

}  // namespace troupe::control
