#include "runtime/cluster/controller/job_phases.hpp"

#include "runtime/base/printable.hpp"
#include "runtime/cluster/controller/job_commands.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/cluster/controller/node_failures.hpp"
#include "runtime/cluster/controller/plan_changes.hpp"
#include "runtime/cluster/pieces.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
// On a slow machine many nodes take long in all, but one after the other joins or is ready: these
// times are without one.
constexpr auto gather_timeout = 8s;
constexpr auto gather_again_timeout = 30s;  // after a restart: nodes reconnect to this daemon
constexpr auto prepare_timeout = 60s;
constexpr auto end_timeout = 5s;
constexpr auto store_timeout = 60s;

using phase = job_run::phase;

std::chrono::seconds gather_time(const controlled_job& j) { return j.from.restored ? gather_again_timeout : gather_timeout; }

std::string joined_names(const std::set<std::string>& names) {
  std::string text;
  for (const auto& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

void not_gathered(job_call& c) {
  auto& j = c.j;
  std::set<std::string> missing;
  for (const auto& n : j.plan.nodes)
    if (!c.nodes.at(n).usable() && !(begins_changed(j) && j.plans.changes().without.contains(n))) missing.insert(n);
  const auto text = "no daemon answers as " + joined_names(missing) + ", which the plan uses (waited " +
                    std::to_string(gather_time(j).count()) + " s)";
  if (!j.plan.survives_failures()) return fail(c, *missing.begin(), text);
  begin_running(c);
  lose(c, *missing.begin(), text, missing);
}

// Complete the last event, and the view.
void complete(job_call& c, done_event& d) {
  auto& j = c.j;
  d.tcp_bytes = j.run.tcp_bytes();
  if (!j.files.unsaved.empty() && d.stopped()) d.alerts.push_back(j.files.unsaved);
  if (j.log.stores_given_up()) d.alerts.emplace_back("the weights were not written in time");
  while (const auto s = j.log.take_result(kept_kind::weights)) {
    d.weights_sha256 = j.view.weights_sha256 = s->sha256;
    j.files.weights = s->path;
    if (!s->error.empty()) d.alerts.push_back("weights not saved: " + s->error);
  }
  j.view.state = d.stopped() ? job_state::stopped : job_state::done;
}

void complete(job_call& c, preempted_event& p) {
  if (!c.j.files.unsaved.empty()) p.alerts.push_back(c.j.files.unsaved);
  if (c.draining) p.goes_on = "when " + c.self() + " runs again";
  c.j.view.state = job_state::preempted;
}

void complete(job_call& c, error_event& bad) {
  c.j.view.state = job_state::failed;
  c.j.view.message = bad.message;
  bad.post_mortem = c.j.run.post_mortems();
}

}  // namespace

void begin_gathering(job_call& c) {
  c.j.run.gather(c.now + gather_time(c.j));
  gather(c);
}

void gather(job_call& c) {
  auto& j = c.j;
  prepare p{j.id, j.from.what, j.plan.plan_hash, {}, j.plan.continued, j.plan.from, j.view.owner};
  std::string numerics, whose;
  const bool changed = begins_changed(j);
  for (const auto& n : j.plan.nodes) {
    const auto& m = c.nodes.at(n);
    if (changed && j.plans.changes().without.contains(n)) continue;
    if (!m.usable()) return;
    p.places.push_back({n, m.said.data_address, m.said.incarnation});
    if (j.plan.deterministic && !whose.empty() && numerics != m.said.numerics)
      return fail(c, n,
                  "nodes " + whose + " (" + numerics + ") and " + n + " (" + m.said.numerics +
                      ") do not compute the same numbers; deterministic = false allows it");
    numerics = m.said.numerics;
    whose = n;
  }
  if (changed) {
    begin_running(c);
    return begin_recovery(
        c, {"coordinator " + c.self() + " restarted and keeps the changes made by set, mode, move, drain and pause", {}}, false);
  }
  if (const auto fits = check_frame(p); !fits) return fail(c, c.self(), fits.error().text);
  j.run.prepare(c.now + prepare_timeout + time_for(j.from.given.bytes), {j.plan.nodes.begin(), j.plan.nodes.end()});
  for (const auto& n : j.plan.nodes) c.send(n, p);
}

void take(job_call& c, const std::string& from, const prepared& m) {
  auto& j = c.j;
  if (j.run.at() != phase::preparing || !j.run.awaited().contains(from)) return;
  if (!m.error.empty()) {
    if (unreachable(c, m.peer, from, m.error)) return;
    return fail(c, from, "node " + from + ": " + m.error);
  }
  j.run.answered(from);
  j.run.wait_until(c.now + prepare_timeout);
  if (!j.run.awaited().empty()) return;
  begin_running(c);
  c.out.push_back(begin_job{j.id});
  c.log(j.text() + " (" + j.plan.name + ") runs");
}

void begin_running(job_call& c) {
  c.j.run.run(c.now);
  c.j.recovery.begin(c.j.plan.max_failures);
  note_begun(c);
}

void take(job_call& c, const std::string& from, const trouble& m) {
  auto& j = c.j;
  if (j.run.at() != phase::preparing && !j.run.runs()) return;
  if ((j.plans.recovers() || j.recovery.rejoins()) && m.node != from) return;  // from roles of the former plan
  if (unreachable(c, m.node, from, m.message)) return;
  const auto why = shortened(m.message, longest_job_error);
  const auto text = m.node == from ? from + ": " + why : m.node + " is lost: " + from + " " + why;
  const bool role = m.node == from && m.role && j.run.runs();
  if (role && restart_role(c, from, *m.role, "node " + text)) return;
  fail(c, m.node, "node " + text);
}

void fail(job_call& c, const std::string& where, const std::string& text) {
  auto& j = c.j;
  if (j.log.ended()) return;
  j.log.end_with({j.id, {j.view.step, error_event{shortened(text, longest_job_error), where}}});
  begin_ending(c);
}

void begin_ending(job_call& c) {
  auto& j = c.j;
  std::set<std::string> nodes, up;
  if (j.run.at() == phase::preparing || j.run.runs()) {
    nodes = {j.plan.nodes.begin(), j.plan.nodes.end()};
    if (const auto& n = j.plans.next(); n && n->plan) nodes.insert(n->plan->plan.nodes.begin(), n->plan->plan.nodes.end());
  }
  for (const auto& n : nodes)
    if (c.nodes.at(n).up) up.insert(n);
  j.plans.drop();
  j.recovery.end_rejoining();
  end_job ends{j.id};
  if (const auto* bad = j.log.last() ? j.log.last()->event.as<error_event>() : nullptr) {
    ends.error = bad->message;
    ends.step = j.log.last()->event.step;
    ends.where = bad->where;
  }
  for (const auto& n : up) c.send(n, ends);
  j.run.end(c.now + end_timeout, std::move(up));
  finish(c);
}

void take(job_call& c, const std::string& from, const ended& m) {
  auto& j = c.j;
  if (j.run.at() != phase::ending || !j.run.answered(from)) return;
  j.run.sent(m.tcp_bytes);
  if (!m.post_mortem.empty()) j.run.wrote_post_mortem(from, m.post_mortem);
  finish(c);
}

void finish(job_call& c) {
  auto& j = c.j;
  if (j.run.at() != phase::ending || !j.run.awaited().empty() || j.log.stores() > 0) return;
  auto& e = j.log.last_to_complete();
  if (auto* d = e.event.as<done_event>()) complete(c, *d);
  if (auto* p = e.event.as<preempted_event>()) complete(c, *p);
  if (auto* bad = e.event.as<error_event>()) complete(c, *bad);
  e.event.answers = j.commands.close_all();
  j.run.finish();
  // The next incarnation of this daemon restores an unfinished job.
  const bool unfinished = c.draining && e.event.is<preempted_event>();
  if (!unfinished) note_over(c);
  if (!unfinished && j.from.has_file()) c.out.push_back(drop_given{j.id});
  c.log(j.text() + " (" + j.view.name + ") is over: " + text_of(j.view.state) +
        (j.view.message.empty() ? "" : ", " + j.view.message));
  say(c, e);
  j.log.drop_followers();
  j.from.what = {};
}

void node_joined(job_call& c, const std::string& node) {
  if (c.j.run.at() == phase::gathering && c.j.uses(node)) c.j.run.wait_until(c.now + gather_time(c.j));
  if (c.j.run.at() == phase::gathering) gather(c);
  if (!c.j.run.runs()) return;
  c.j.recovery.back(node);
  take_back(c);
}

void node_recovered(job_call& c) {
  if (c.j.run.at() == phase::gathering) gather(c);
  if (c.j.run.runs()) take_back(c);
}

void node_lost(job_call& c, const std::string& node, const std::string& reason) {
  auto& j = c.j;
  const auto why = "node " + node + " is lost: " + reason;
  if (lost_to_successor(c, node, why) || !j.uses(node)) return;
  if (j.run.at() == phase::preparing) begin_running(c);
  if (j.run.runs() && !comes_back(c, node)) return lose(c, node, why);
  if (j.run.at() == phase::ending && j.run.answered(node)) finish(c);
}

void node_leaves(job_call& c, const std::string& node) {
  auto& j = c.j;
  const auto why = "node " + node + " shuts down";
  if (lost_to_successor(c, node, why) || !j.uses(node)) return;
  if (j.run.runs()) {
    if (!take_leave(c, node)) preempt(c, node + " shuts down");
  } else if (j.run.at() == phase::preparing) {
    if (!j.plan.survives_failures() || node == c.self()) return fail(c, node, why);
    begin_running(c);
    lose(c, node, why);
  }
}

void watch_deadline(job_call& c) {
  auto& j = c.j;
  if (j.run.runs()) {
    if (j.recovery.rejoins()) return watch_rejoining(c);
    watch_successor(c);
    if (j.run.runs()) watch_suspects(c);
    if (j.run.look_due(c.now, report_interval(true, c.nodes.all().size()))) watch_progress(c);
    return;
  }
  if (!j.run.overdue(c.now)) return;
  if (j.run.at() == phase::gathering) return not_gathered(c);
  if (j.run.at() == phase::preparing)
    return fail(c, *j.run.awaited().begin(), joined_names(j.run.awaited()) + " did not get ready within 60 s");
  // Ending: does not wait for nodes that have not answered; stores have another `store_timeout`.
  j.run.await_no_more();
  if (j.run.overdue(c.now, store_timeout)) j.log.give_up_stores();
  finish(c);
}

}  // namespace troupe::control
