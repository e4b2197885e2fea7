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

message to_message(const job_event& e) { return said{e.job, e.event.kind, e.event.text, e.event.step, e.event.values, e.texts}; }
job_event to_event(const said& m) { return {m.job, {m.kind, m.step, m.values, m.text}, m.texts}; }

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
  const auto& kind = e.event.kind;
  note_event(j.view, e.event);
  j.progress_at = now;
  if (kind == "step") {
    if (std::exchange(j.begins, false)) out.push_back(drop_beginning{j.id});
    j.reached = 0;
  } else if (kind == "paused" || kind == "resumed") {
    j.paused = kind == "paused";
  } else if (kind == "set") {
    for (const auto& [key, value] : e.event.values) j.since.settings.push_back({key, value, e.event.step});
    note_set(j, out);
  } else if (kind == "mode") {
    set_mode(j.changes, e.event.text);
    note_words(j, out);
  } else if (kind == "refused" && j.next && j.next->live && j.next->at == successor::phase::draining && !e.event.values.empty()) {
    return nothing_is_left(j, e.event.text, now, out);
  } else if (kind == "refused" && j.next && j.next->at == successor::phase::draining && !e.event.values.empty()) {
    drop_successor(j, out);  // the coordinator role refused the handover
    e.event.values.clear();
  } else if (kind == "checkpoint") {
    for (auto at = j.results.begin(); at != j.results.end(); ++at) {
      if (at->what != "checkpoint") continue;
      if (at->error.empty()) {
        e.texts.emplace_back("file", j.kept = at->path);
        j.kept_step = e.event.step;
        j.kept_at = now;
      } else
        e.event = {"alert", e.event.step, {}, std::string(checkpoint_not_saved) + at->error};
      if (j.stopping) j.unsaved = at->error.empty() ? std::string() : e.event.text;
      j.results.erase(at);
      break;
    }
  } else if (kind == "done") {
    j.last = std::move(e);
    if (!j.preempted.empty() && j.last->event.text == "stopped") {
      j.last->event = {"preempted", j.last->event.step, {}, j.preempted};
      if (!j.kept.empty()) j.last->texts.emplace_back("file", j.kept);
    }
    return end(j, now, out);
  } else if (kind == "error") {
    const auto colon = e.event.text.find(": ");
    const bool role = e.event.text.starts_with("role ") && colon != std::string::npos;
    const auto where = role ? e.event.text.substr(5, colon - 5) : "coordinator";
    if (role && restart_role(j, where, e.event.text, now, out)) return;
    return fail(j, where, e.event.text, now, out);
  }
  const auto proposal = kind == "balance" && !j.back && !j.next && !j.stopping ? balance_as(e.event) : command{};
  say(j, std::move(e), out);
  if (!proposal.name.empty()) wish(j, proposal, now, out);
}

void cluster_controller::say(job& j, job_event e, orders& out) {
  const bool step = e.event.kind == "step";
  if (e.event.kind == "histogram" || e.event.kind == "best")  // for the run folder and the REPL
    return out.push_back(followed_event{std::move(e)});
  const auto m = to_message(e);
  for (const auto& f : j.followers)
    if (!step || !slow_.contains(f)) out.push_back(to_peer{f, m});
  out.push_back(followed_event{e});
  auto& list = step ? j.steps : j.history;
  list.push_back(std::move(e));
  if (list.size() > (step ? keep_steps : keep_events)) list.pop_front();
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
  if (s.what == "checkpoint" && s.error.empty()) out.push_back(journal_line{journal_kept(number_of(j->id), s.path)});
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
    job_event e{j.id, {"alert", j.view.step, t.values(), t.text()}, {{"where", t.what.node}}};
    if (!t.layer().empty()) e.texts.emplace_back("layer", t.layer());
    out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + ": " + t.text()});
    say(j, std::move(e), out);
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
  if (c.name == "inject") return inject(who, c, out);
  if (const auto* j = find_for_command(number))
    if (auto why = why_not_tell(who, j->view.id, j->view.owner, c.name); !why.empty()) return why;
  if (c.name == "kill") return kill(who, number, now, out);
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
  if (j->at == phase::queued && c.name == "stop") {
    fail(*j, self_, "removed from the queue before it started", now, out);
    return {};
  }
  if (j->at == phase::over) return "job " + std::to_string(j->view.id) + " is over";
  if (j->at != phase::running) return "job " + std::to_string(j->view.id) + " has not started yet";
  if (amends(c)) return wish(*j, c, now, out), std::string();
  if (c.name == "stop") j->stopping = true;
  if (c.name == "pause" || c.name == "resume") {
    j->since.paused = c.name == "pause";
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
    j->last = job_event{j->id, {"preempted", j->view.step, {}, why}, {}};
    end(*j, now, out);
  }
}

// Stops the job at the next boundary, with a checkpoint. A job that a user has stopped is not
// preempted.
void cluster_controller::preempt(job& j, const std::string& why, orders& out) {
  if (!std::exchange(j.stopping, true)) j.preempted = why;
  tell_or_hold(j, {"stop", {}, 0, {}}, out);
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
