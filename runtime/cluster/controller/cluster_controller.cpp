#include "runtime/cluster/controller/cluster_controller.hpp"

#include <algorithm>
#include <utility>

#include "runtime/access/names.hpp"
#include "runtime/cluster/controller/controlled_job.hpp"
#include "runtime/cluster/controller/job_commands.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/controller/plan_changes.hpp"
#include "runtime/cluster/role_entries.hpp"

namespace troupe::control {
namespace {

// The view that the REPL shows: nodes, jobs and roles as last reported, and the steps at risk if a
// node failed now.

// Steps since the newest checkpoint, or since the file that the job started from. All of them are
// repeated if the coordinator's daemon is killed, or if state is lost that no other node has.
// Otherwise only the step under way is repeated, which has not been reported.
std::uint64_t steps_at_risk(const controlled_job& j) {
  const auto back = std::max(j.files.kept ? j.files.kept->step : 0, j.plan.continued ? j.plan.from : 0);
  return j.view.step > back ? j.view.step - back : 0;
}

std::optional<std::uint64_t> steps_at_risk(const controlled_job& j, const std::string& node, const std::string& self) {
  if (!j.run.runs() || !j.has_part(node)) return std::nullopt;
  return node == self || j.plan.costly.contains(node) ? steps_at_risk(j) : 0;
}

repl_node entry_of(const std::string& name, const controller_state& state, instant now) {
  const auto& m = state.nodes.at(name);
  repl_node entry;
  entry.name = name;
  entry.data_address = m.said.data_address;
  entry.state = m.up ? (m.leaving ? "leaving" : m.hung ? "hung" : "up") : (m.absent() ? "absent" : "lost");
  entry.incarnation = m.said.incarnation;
  entry.tcp_in = m.last.tcp_in;
  entry.tcp_out = m.last.tcp_out;
  for (const auto& l : m.last.links)
    entry.links.push_back({l.peer, l.by, l.why_not, l.bytes_in, l.bytes_out, l.shared_in, l.round_trip});
  if (m.up) entry.gpus = m.last.gpus;
  if (m.up) entry.memory = m.last.memory;
  entry.seconds = m.absent() ? 0 : seconds_of(now - m.since);
  entry.lives = m.lives;
  entry.node_failures = m.failures;
  const auto* j = state.jobs.find(state.active);
  if (!j || !j->run.runs()) return entry;
  if (m.up && !m.hung) entry.steps_at_risk = steps_at_risk(*j, name, state.nodes.self());
  entry.off = j->plans.changes().without.contains(name);
  const auto& failures = j->recovery.failures();
  const auto number = j->text();
  if (const auto s = failures.suspected(name))
    entry.note = s->by + " cannot reach it: counts as failed for " + number + " in " +
                 std::to_string(std::chrono::ceil<std::chrono::seconds>(s->until - now).count()) + " s";
  else if (failures.apart.contains(name))
    entry.note = number + " continues without it: other nodes cannot reach it";
  else if (failures.away.contains(name))
    entry.note = number + " continues without it";
  else
    entry.drained = entry.off;
  if (entry.drained) entry.note = "drained: " + number + " does not use it until `add-node " + name + "`";
  return entry;
}

repl_job entry_of(const controlled_job& j, instant now) {
  auto entry = j.view;
  entry.state = j.state();
  entry.doing = j.doing();
  entry.node_failures = j.recovery.failures().count();
  entry.replicas = j.plan.replicas;
  if (const auto& kept = j.files.kept) {
    entry.kept = kept->step;
    entry.kept_seconds = seconds_of(now - kept->at);
  }
  if (j.run.runs()) entry.steps_at_risk = steps_at_risk(j);  // the coordinator's node is part of every job
  return entry;
}

void fill(repl_view& v, const controller_state& state, const cluster_spec& cluster, instant now) {
  for (const auto& n : cluster.nodes) {
    auto entry = entry_of(n.name, state, now);
    entry.address = n.address;
    v.nodes.push_back(std::move(entry));
    const auto& m = state.nodes.at(n.name);
    if (n.name == state.nodes.self() || !m.up) continue;
    const auto unheard = seconds_of(now - std::max(m.reported, m.since));
    v.nodes.back().unheard_seconds = unheard;
    for (const auto& r : m.last.roles) {
      v.roles.push_back({n.name, published_in(r)});
      v.roles.back().what.age_seconds += unheard;
    }
  }
  for (const auto& [id, j] : state.jobs.all()) v.jobs.push_back(entry_of(j, now));
}

// Incarnations of the daemon that may end during a job without a checkpoint between; the job may be
// the cause.
constexpr std::uint32_t lives_of_a_job = 3;

// Messages that a function of a job takes.
template <class M>
concept about_a_job = requires(job_call& c, const M& m) {
  control::take(c, std::string(), m);
};

// Why the files of a job that is over were not stored; empty: they were.
std::string why_not_stored(const controlled_job& j) {
  const auto& e = j.log.last()->event;
  std::string why;
  if (const auto* bad = e.as<error_event>()) why = bad->message;
  if (const auto* d = e.as<done_event>(); d && !d->alerts.empty()) why = d->alerts.back();
  if (const auto* p = e.as<preempted_event>(); p && !p->alerts.empty()) why = p->alerts.back();
  return why.empty() ? why : j.text() + ": " + why;
}

}  // namespace

cluster_controller::cluster_controller(const cluster_spec& cluster, std::string self, std::uint16_t tag)
    : cluster_(cluster), state_{membership(cluster, std::move(self)), {}, 0, {}, false}, submissions_(state_, tag) {}

// --- jobs

void cluster_controller::with(controlled_job* j, instant now, orders& out, const std::function<void(job_call&)>& what) {
  if (!j) return;
  auto c = state_.about(*j, now, out);
  what(c);
  settle(*j, now, out);
}

void cluster_controller::settle(const controlled_job& j, instant now, orders& out) {
  if (j.log.ended()) submissions_.leave_queue(j.id);
  if (!j.run.over() || state_.active != j.id) return;
  if (state_.draining && j.run.stopping())
    if (auto why = why_not_stored(j); !why.empty()) lost_by_draining_ = std::move(why);
  state_.active = 0;
  begin_next(now, out);
}

void cluster_controller::begin_next(instant now, orders& out) {
  while (!state_.draining && state_.active == 0) {
    const auto id = submissions_.next_in_queue();
    if (!id) return;
    auto* j = state_.jobs.find(*id);
    if (!j || j->run.at() != job_run::phase::queued) continue;
    state_.active = *id;
    auto c = state_.about(*j, now, out);
    begin_gathering(c);
    if (j->run.over()) state_.active = 0;
  }
}

controlled_job* cluster_controller::job_of_command(std::uint32_t number) {
  return number == 0 ? active_job() : state_.jobs.find_either(number);
}

// --- messages

void cluster_controller::on(const std::string& from, const message& m, instant now, orders& out) {
  if (const auto fine = check_sender(from, m); !fine) {
    if (auto line = dropped_.note(from, m, fine.error().text)) out.push_back(log_line{std::move(*line)});
    return;
  }
  std::visit([&](const auto& x) { take(from, x, now, out); }, m);
}

template <class M>
void cluster_controller::take(const std::string& from, const M& m, instant now, orders& out) {
  if constexpr (about_a_job<M>) with(state_.jobs.find(m.job), now, out, [&](job_call& c) { control::take(c, from, m); });
}

void cluster_controller::take(const std::string& from, const join& m, instant now, orders& out) {
  if (const auto admitted = state_.nodes.admit(from, m); !admitted) {
    out.push_back(to_peer{from, joined{admitted.error().text}});
    out.push_back(log_line{"refused " + from + ": " + admitted.error().text});
    return;
  }
  auto* j = active_job();
  // The node has roles of this plan. They are of use only if the job waits for them.
  const bool wanted = j && j->recovery.rejoins() && m.job == j->id && j->plans.generation() == m.plan_generation &&
                      state_.nodes.at(from).said.incarnation == m.incarnation;
  if (m.job != 0 && !wanted) return out.push_back(to_peer{from, joined{{}, m.job}});
  if (j) j->recovery.joined(from, m.job != 0);
  out.push_back(to_peer{from, joined{}});
  state_.nodes.joined(from, m, now);
  out.push_back(log_line{"node " + from + " has joined, data plane at " + m.data_address});
  with(j, now, out, [&](job_call& c) { node_joined(c, from); });
}

void cluster_controller::take(const std::string& from, const submit& m, instant now, orders& out) {
  take_submission(operator_of(from), from, m, now, out);
}

void cluster_controller::take(const std::string& from, const ended& m, instant now, orders& out) {
  if (!state_.nodes.at(from).hung) return with(state_.jobs.find(m.job), now, out, [&](job_call& c) { control::take(c, from, m); });
  state_.nodes.recovers(from);
  out.push_back(log_line{"the task on node " + from + " that was considered hung has ended"});
  with(active_job(), now, out, [&](job_call& c) { node_recovered(c); });
}

void cluster_controller::take(const std::string& from, const report& m, instant now, orders&) {
  state_.nodes.reported(from, m, now);
}

void cluster_controller::take(const std::string& from, const leaving&, instant now, orders& out) {
  if (!state_.nodes.leaves(from)) return;
  out.push_back(log_line{"node " + from + " shuts down"});
  with(active_job(), now, out, [&](job_call& c) { node_leaves(c, from); });
}

void cluster_controller::take(const std::string& from, const follow& m, instant, orders& out) {
  auto* j = state_.jobs.find_either(m.job);
  if (!j || (j->run.submitted() && !j->from.restored)) {
    out.push_back(to_peer{from, submitted{0, 0, {"there is no job " + std::to_string(m.job)}}});
    return;
  }
  submitted found{0, j->id, {}};
  submissions_.describe(*j, found);
  out.push_back(to_peer{from, std::move(found)});
  if (!j->log.needs_history(from)) return;
  for (const auto* e : j->log.history()) out.push_back(to_peer{from, to_message(*e)});
  if (!j->run.over()) j->log.follow(from);
}

void cluster_controller::take(const std::string& from, const piece& m, instant now, orders& out) {
  submissions_.take(from, m, now, out);
}

// --- connections

void cluster_controller::on_peer_up(const std::string& peer, std::uint64_t incarnation) {
  state_.nodes.connected(peer, incarnation);
}

void cluster_controller::on_peer_down(const std::string& peer, const std::string& reason, instant now, orders& out) {
  state_.slow.erase(peer);
  submissions_.disconnected(peer, now, out);
  for (auto& [id, j] : state_.jobs.all()) {
    j.log.disconnected(peer);
    j.recovery.failures().clear_of(peer);
  }
  if (state_.nodes.disconnected(peer, now)) out.push_back(log_line{"node " + peer + " is lost: " + reason});
  if (state_.nodes.knows(peer)) with(active_job(), now, out, [&](job_call& c) { node_lost(c, peer, reason); });
}

void cluster_controller::slow(const std::string& client, bool yes) {
  if (yes)
    state_.slow.insert(client);
  else
    state_.slow.erase(client);
}

// --- submissions

void cluster_controller::take_submission(const std::string& owner, const std::string& from, const submit& m, instant now,
                                         orders& out) {
  submissions_.submit(owner, from, m, now, out);
}

void cluster_controller::on_checked(std::uint32_t id, checked c, instant now, orders& out) {
  submissions_.checked(id, std::move(c), now, out);
  begin_next(now, out);
  submissions_.next_check(out);
}

void cluster_controller::on_piece_kept(std::uint32_t id, const expected<void>& kept, instant now, orders& out) {
  submissions_.piece_kept(id, kept, now, out);
}

void cluster_controller::restore(const journal_content& found, instant now, orders& out) {
  auto& numbers = submissions_.numbers();
  numbers.go_on_after(found.last_number);
  for (const auto& f : found.finished) control::restore(state_.jobs.add(numbers.id_of(f.number)), f);
  for (const auto& u : found.jobs) {
    auto& j = state_.jobs.add(numbers.id_of(u.number));
    control::restore(j, u);
    out.push_back(log_line{j.text() + " was unfinished when this daemon ended: " +
                           (!u.kept.empty() ? "it continues from " + u.kept
                            : u.begun > 0   ? "it starts again"
                                            : "it is queued again")});
    if (u.begun >= lives_of_a_job)
      with(&j, now, out, [&](job_call& c) {
        fail(c, c.self(),
             "given up: this daemon ended " + std::to_string(u.begun) + " times while the job ran, with no checkpoint between");
      });
    else
      submissions_.check_again(j, now, out);
  }
}

// --- the running job

void cluster_controller::on_event(const job_event& e, instant now, orders& out) {
  with(state_.jobs.find(e.job), now, out, [&](job_call& c) { control::on_event(c, e); });
}

void cluster_controller::on_plan_found(const plan_found& f, instant now, orders& out) {
  with(state_.jobs.find(f.job), now, out, [&](job_call& c) { control::on_plan_found(c, f); });
}

void cluster_controller::on_handover(std::uint32_t id, std::uint64_t step, instant now, orders& out) {
  with(state_.jobs.find(id), now, out, [&](job_call& c) { control::on_handover(c, step); });
}

bool cluster_controller::crowded(std::uint32_t id) const {
  const auto* j = state_.jobs.find(id);
  return j && j->log.stores() >= 2 && j->run.runs() && !j->run.stopping();
}

void cluster_controller::on_store_begun(std::uint32_t id) {
  if (auto* j = state_.jobs.find(id)) j->log.store_begun();
}

void cluster_controller::on_stored(const stored& s, instant now, orders& out) {
  with(state_.jobs.find(s.job), now, out, [&](job_call& c) { control::on_stored(c, s); });
}

void cluster_controller::on_tick(instant now, orders& out) {
  state_.nodes.tick(now);
  state_.jobs.forget_old({state_.active, submissions_.numbers().last()});
  submissions_.watch_deadlines(now, out);
  with(active_job(), now, out, [](job_call& c) { watch_deadline(c); });
}

// --- commands

expected<void> cluster_controller::tell(const person& who, std::uint32_t number, const command& c, instant now, orders& out) {
  auto* j = job_of_command(number);
  if (j)
    if (auto fine = check_command(who, j->view.id, j->view.owner, c); !fine) return fine;
  if (!c.is<kill_command>() || !j) return tell(number, c, now, out);
  expected<void> done;
  with(j, now, out, [&](job_call& call) { done = kill(call, c, who.name); });
  return done;
}

expected<void> cluster_controller::tell(std::uint32_t number, const command& c, instant now, orders& out) {
  auto* j = job_of_command(number);
  if (!j) return unexpected(error(number == 0 ? "no job runs" : "there is no job " + std::to_string(number)));
  expected<void> done;
  with(j, now, out, [&](job_call& call) { done = give(call, c); });
  return done;
}

void cluster_controller::drain(instant now, orders& out) {
  if (std::exchange(state_.draining, true)) return;
  submissions_.close(now, out);
  with(active_job(), now, out, [](job_call& c) { control::drain(c); });
}

bool cluster_controller::drained() const {
  if (!state_.draining || state_.active != 0) return false;
  for (const auto& [id, j] : state_.jobs.all())
    if (j.log.stores() > 0) return false;
  return true;
}

// --- views

std::string cluster_controller::owner_of(std::uint32_t id) const {
  const auto* j = state_.jobs.find(id);
  return j ? j->view.owner : std::string();
}

std::string cluster_controller::weights_of(std::uint32_t id) const {
  const auto* j = state_.jobs.find(id);
  return j ? j->files.weights : std::string();
}

void cluster_controller::fill(repl_view& v, instant now) const { control::fill(v, state_, cluster_, now); }

}  // namespace troupe::control
