#include "runtime/cluster/controller/job_events.hpp"

#include "runtime/cluster/controller/job_commands.hpp"
#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/controller/node_failures.hpp"
#include "runtime/cluster/controller/plan_changes.hpp"
#include "runtime/cluster/role_entries.hpp"
#include "runtime/cluster/view/job_progress.hpp"

namespace troupe::control {
namespace {

constexpr std::chrono::seconds says_so_timeout{5};  // a node's report of its tasks expires

// What an event of the coordinator role changes. May replace the event. Returns true if the event
// is to be sent to the followers.
class take_effect {
 public:
  take_effect(job_call& c, job_event& e) : c_(c), j_(c.j), e_(e) {}

  bool operator()(const step_event&) {
    if (j_.plans.first_step()) c_.out.push_back(drop_beginning{j_.id});
    j_.recovery.made_step();
    return true;
  }
  bool operator()(const paused_event&) {
    const bool already = j_.run.paused() && e_.event.answers.empty();  // the plan before this one was paused
    j_.run.pause(true);
    return !already;
  }
  bool operator()(const resumed_event&) { return j_.run.pause(false), true; }
  bool operator()(const set_event& s) {
    j_.recovery.changed(s.setting.first, s.setting.second, e_.event.step);
    return note_settings(c_), true;
  }
  bool operator()(const mode_event& m) {
    j_.plans.changed_mode(m.mode);
    return note_changes(c_), true;
  }
  bool operator()(const handover_refused_event& r) {
    if (!j_.plans.next_is(successor::phase::draining)) return true;
    if (j_.plans.next()->live()) return nothing_is_left(c_, r.message), false;
    e_.event.answers = answers_to(j_.plans.next()->wish.id);
    drop_successor(c_);
    tell_waiting(c_);
    e_.event.what = refused_event{std::string(r.message)};
    return true;
  }
  // A checkpoint is announced with its file, or with the reason why it was not saved.
  bool operator()(const checkpoint_event&) {
    const auto s = j_.log.take_result(kept_kind::checkpoint);
    if (!s) return true;
    if (!s->path.empty()) j_.files.kept = job_files::checkpoint{s->path, e_.event.step, c_.now};
    if (s->error.empty()) {
      e_.event.what = checkpoint_event{s->path};
    } else {
      e_.event.what = checkpoint_lost_event{"the checkpoint was not saved: " + s->error};
    }
    if (j_.run.stopping()) j_.files.unsaved = s->error.empty() ? std::string() : message_of(e_.event);
    return true;
  }
  bool operator()(const done_event& d) {
    auto last = e_;
    if (!j_.run.preempted().empty() && d.stopped())
      last.event.what = preempted_event{j_.files.kept ? j_.files.kept->path : std::string(), {}, {}, j_.run.preempted()};
    j_.log.end_with(std::move(last));
    return begin_ending(c_), false;
  }
  bool operator()(const error_event& bad) {
    const auto where = bad.role ? bad.role->role : "coordinator";
    if (!bad.role || !restart_role(c_, where, *bad.role, bad.message)) fail(c_, where, bad.message);
    return false;
  }
  bool operator()(const auto&) { return true; }

 private:
  job_call& c_;
  controlled_job& j_;
  job_event& e_;
};

// Keeps the answers to commands that have had no outcome yet. Returns false if nothing else is in
// the event.
bool keep_new_answers(controlled_job& j, event_effect& e) {
  const bool answers = !e.answers.empty();
  e.answers = j.commands.close(e.answers);
  return !answers || !e.answers.empty() || !(only_answers(e) || e.is<refused_event>());
}

void take_event(job_call& c, job_event e) {
  auto& j = c.j;
  if (j.log.ended()) return;
  note_event(j.view, e.event);
  j.run.progressed(c.now);
  if (!std::visit(take_effect(c, e), e.event.what)) return;
  if (!keep_new_answers(j, e.event)) return;
  const auto* proposal = e.event.as<balance_event>();
  const bool balances = proposal && !j.recovery.rejoins() && !j.plans.next() && !j.run.stopping();
  const auto packets = balances ? proposal->packets : std::vector<std::uint32_t>();
  say(c, std::move(e));
  if (!packets.empty()) wish(c, {balance_command{packets}});
}

// A running task counts as progress while its node keeps reporting it. Overlong tasks are
// announced, a hung one ends the job or costs its node. Returns true if a task of the job runs.
bool watch_tasks(job_call& c) {
  auto& j = c.j;
  std::vector<watched_task> running;
  for (const auto& [name, m] : c.nodes.all()) {
    if (!m.up || m.hung || c.now - m.reported > says_so_timeout) continue;
    for (const auto& r : m.last.roles)
      if (r.job == j.id && r.task.serial != 0) running.push_back({name, r.name, published_in(r).task});
  }
  const auto found = j.run.look(running, c.now);
  for (const auto& t : found.overlong) {
    c.log(j.text() + ": " + t.text());
    say(c, {j.id, {j.view.step, slow_task_of(t)}});
  }
  if (found.hung) lose_hung(c, found.hung->what.node, found.hung->text() + ", and is considered hung");
  return found.runs;
}

void watch_stragglers(job_call& c) {
  auto& j = c.j;
  std::vector<role_load> loads;
  std::vector<link_load> links;
  for (const auto& [name, m] : c.nodes.all()) {
    if (!m.up || !j.uses(name)) continue;
    for (const auto& r : m.last.roles)
      if (r.job == j.id) loads.push_back({name, r.name, r.step, r.busy});
    for (const auto& l : m.last.links)
      if (j.uses(l.peer)) links.push_back({name, l.peer, l.round_trip});
  }
  for (auto& s : j.run.look(loads, links, c.now)) {
    c.log(j.text() + ": " + s.message);
    const event_effect e{j.view.step, std::move(s)};
    note_event(j.view, e);
    say(c, {j.id, e});
  }
}

}  // namespace

void on_event(job_call& c, const job_event& e) {
  if (c.j.log.ended() || !c.j.run.runs()) return;
  if (!c.j.log.holds(e)) take_event(c, e);
}

void say(job_call& c, job_event e) {
  const bool step = e.event.is<step_event>();
  if (e.event.is<histogram_event>() || e.event.is<best_event>() || only_answers(e.event))  // for the run folder and the REPL
    return c.out.push_back(followed_event{std::move(e)});
  const message m = to_message(e);
  for (const auto& f : c.j.log.followers())
    if (!step || !c.slow.contains(f)) c.send(f, m);
  c.out.push_back(followed_event{e});
  c.j.log.sent(std::move(e));
}

void on_stored(job_call& c, const stored& s) {
  auto& log = c.j.log;
  log.store_ended(s);
  if (s.what == kept_kind::checkpoint && !s.path.empty()) note_kept(c, s.path);
  if (log.stores() > 0) return;
  while (auto e = log.next_released()) take_event(c, std::move(*e));
  finish(c);
}

void watch_progress(job_call& c) {
  auto& j = c.j;
  const bool computes = watch_tasks(c);
  if (!j.run.runs()) return;
  watch_stragglers(c);
  std::uint64_t handled = 0;
  for (const auto& [name, m] : c.nodes.all())
    for (const auto& r : m.last.roles)
      if (r.job == j.id) handled += r.messages;
  if (!j.run.stalled(handled, computes, c.now)) return;
  std::string text = "no role handled a message for 120 s";
  for (const auto& [name, m] : c.nodes.all())
    for (const auto& r : m.last.roles)
      if (r.job == j.id && !r.waits_for.empty()) text += "; " + r.name + " waits for " + r.waits_for;
  fail(c, c.self(), text);
}

}  // namespace troupe::control
