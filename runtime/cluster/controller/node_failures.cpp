#include "runtime/cluster/controller/node_failures.hpp"

#include "runtime/cluster/controller/job_commands.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/controller/plan_changes.hpp"

namespace troupe::control {
namespace {

bool may_recover(const job_call& c) { return c.j.recovery.failures().survives_any() && !c.j.run.stopping() && !c.draining; }

// This daemon was suspended. A next plan cannot begin, since its nodes have closed their
// connections. Roles that are being swapped cannot be stopped: that plan ends when all have
// swapped.
void await_rejoining(job_call& c, failure_cause cause) {
  auto& j = c.j;
  const bool counted = j.plans.recovers();
  if (counted) {
    auto both = failure_cause(*j.plans.next()->loss);
    both.add(cause);
    cause = std::move(both);
  } else if (j.plans.next() && !j.plans.next_is(successor::phase::swapping)) {
    say_refused(c, cause.why, j.plans.next()->wish.id);
  }
  if (!j.plans.next_is(successor::phase::swapping)) drop_successor(c);
  j.recovery.begin_rejoining({{}, std::move(cause), c.now, counted});
}

}  // namespace

void lose(job_call& c, const std::string& node, const std::string& why, std::set<std::string> named) {
  auto& j = c.j;
  const bool first = !j.plans.recovers();
  if (!node.empty()) named.insert(node);
  failure_cause cause{why, std::move(named)};
  if (first) {
    const auto no = j.recovery.failures().note(why, c.now);
    if (no) return fail(c, node.empty() ? c.self() : node, *no);
    if (j.plans.next() && !j.plans.next_is(successor::phase::swapping)) say_refused(c, why, j.plans.next()->wish.id);
  }
  if (j.plans.next_is(successor::phase::swapping)) {
    j.plans.break_swap(node, cause);
    if (j.plans.all_swapped()) swap_done(c);
    return;
  }
  if (!first) return begin_recovery_again(c, true, &cause);
  drop_successor(c);
  begin_recovery(c, std::move(cause), true);
}

void begin_recovery(job_call& c, failure_cause cause, bool live) {
  auto& j = c.j;
  j.recovery.end_rejoining();
  auto [down, loss] = j.recovery.assess(std::move(cause), c.nodes, j.plan.nodes, j.plans.changes().without);
  going_back back{j.recovery.settings(), j.recovery.role_pauses()};
  back.seconds = seconds_of(c.now - j.run.begun());
  back.live = live && j.plans.generation();
  back.silent = loss.silent;
  const command lost{loss_of(down)};
  const auto generation = j.plans.recover(std::move(loss), lost, c.now);
  c.out.emplace_back(check_move{j.id, j.plans.changes(), lost, j.from.what, generation, std::move(back)});
}

void begin_recovery_again(job_call& c, bool live, const failure_cause* further) {
  auto& j = c.j;
  failure_cause cause = *j.plans.next()->loss;
  if (further) cause.add(*further);
  const auto before = *j.plans.next();
  drop_successor(c);
  begin_recovery(c, std::move(cause), live);
  j.plans.instead_of(before);
}

void ask_for_surviving_state(job_call& c) {
  c.j.plans.collect_state(c.now);
  const auto& silent = c.j.plans.next()->loss->silent;
  c.tell({surviving_state_command{{silent.begin(), silent.end()}}});
}

void nothing_is_left(job_call& c, const std::string& why) {
  c.log(c.j.text() + " restarts from its last saved state: " + why);
  begin_recovery_again(c, false);
}

void went_back(job_call& c, const successor& n) {
  auto& j = c.j;
  const auto again = j.recovery.steps_again(j.view.step, n.step);
  j.view.step = n.step;
  const auto ms = [](instant from, instant to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  auto text = n.loss->why + "; " + done_text({loss_of(n.loss->without)});
  for (const auto& name : n.loss->nodes)
    if (n.uses(name) && c.nodes.at(name).since > n.stopped) text += "; " + name + " has joined again";
  const bool from_nothing = n.step == 0 && !n.live() && (again > 0 || j.from.restored);
  const auto* where = from_nothing ? "; there was no checkpoint, so training restarts at step 0" : "";
  const auto node = n.loss->without.empty() ? std::string() : *n.loss->without.begin();
  c.log(j.text() + ": " + text + " from step " + std::to_string(n.step));
  const auto took = ms(n.stopped, c.now);
  on_event(c, {j.id,
               {n.step, recovered_event{took, again, node, text + where, ms(n.stopped, n.planned), ms(n.planned, n.prepared),
                                        ms(n.prepared, n.swapping), ms(n.swapping, c.now), n.live(), n.plans}}});
  for (const auto& change : j.plans.take_adopted()) change_made(c, change, n.step, took);
  j.commands.tell_again();
  tell_waiting(c);
  take_back(c);
}

bool restart_role(job_call& c, const std::string& where, const role_failure& what, const std::string& text) {
  auto& j = c.j;
  if (!may_recover(c)) return false;
  if (j.plans.recovers() || j.recovery.rejoins()) return true;  // the recovery ends that role anyway
  if (!j.recovery.may_restart_roles(j.view.step)) return false;
  if (j.plans.next_is(successor::phase::swapping)) return lose(c, {}, text), true;
  const bool owns = what.role.starts_with("shard") || what.role.starts_with("coordinator");
  const auto no = j.recovery.failures().note(text, c.now);
  if (no) return fail(c, where, *no), true;
  if (j.plans.next()) say_refused(c, text, j.plans.next()->wish.id);
  drop_successor(c);
  begin_recovery(c, {text, {}}, !owns);
  return true;
}

void take_back(job_call& c) {
  auto& j = c.j;
  if (j.plans.next() || j.recovery.rejoins() || j.run.stopping() || c.draining || j.log.ended() || !j.run.runs()) return;
  for (const auto& n : j.plan.nodes)
    if (c.nodes.at(n).up && c.nodes.at(n).leaving && n != c.self()) {
      wish(c, {drain_command{n}});
      if (j.plans.next()) j.plans.node_returns();
      return;
    }
  for (const auto& n : j.recovery.failures().away)
    if (c.nodes.at(n).usable() && !j.recovery.failures().not_now.contains(n)) return wish(c, {add_node_command{n}});
}

void refused(job_call& c, const command& wish) {
  if (const auto* added = wish.as<add_node_command>()) c.j.recovery.failures().not_now.insert(added->node);
  const auto* drained = wish.as<drain_command>();
  if (!drained || !c.nodes.at(drained->node).leaving) return take_back(c);
  preempt(c, drained->node + " shuts down, and no other node can take its part");
}

void lose_hung(job_call& c, const std::string& node, const std::string& why) {
  if (node == c.self() || !may_recover(c)) return fail(c, node, why);
  c.nodes.hangs(node);
  c.send(node, end_job{c.j.id, node, why, c.j.view.step});
  lose(c, node, "node " + node + " is lost: " + why);
}

bool comes_back(job_call& c, const std::string& node) {
  auto& j = c.j;
  if (c.nodes.at(node).up) return false;
  j.recovery.lost_connection(node);
  if (c.draining || !j.recovery.failures().survives_any()) return false;
  if (!j.recovery.rejoins()) {
    const auto suspended = c.nodes.clock().suspended(c.now);
    if (!suspended) return false;
    await_rejoining(
        c, {c.self() + " was suspended for " + std::to_string(suspended->count()) + " s, and nodes closed their connections", {}});
  }
  j.recovery.await(node);
  if (!j.plans.next()) return true;
  j.plans.break_swap(node, j.recovery.rejoins()->cause);
  if (j.plans.all_swapped()) swap_done(c);
  return true;
}

void watch_rejoining(job_call& c) {
  auto& j = c.j;
  if (!j.recovery.rejoins()->over(c.now)) return;
  if (j.plans.next()) return watch_successor(c);  // the other nodes still swap their roles
  const auto r = *j.recovery.rejoins();
  const auto no = r.counted ? std::nullopt : j.recovery.failures().note(r.cause.why, c.now);
  if (no) return fail(c, c.self(), *no);
  begin_recovery(c, r.cause, true);
  j.plans.stopped_at(r.since);
}

bool take_leave(job_call& c, const std::string& node) {
  if (!may_recover(c) || node == c.self()) return false;
  take_back(c);  // or later, when the next plan has begun
  return true;
}

bool unreachable(job_call& c, const std::string& node, const std::string& by, const std::string& why) {
  auto& j = c.j;
  if (!c.nodes.knows(node) || node == by || !j.has_part(node) || !j.plan.survives_failures()) return false;
  if (j.run.at() == job_run::phase::preparing) begin_running(c);
  if (c.nodes.at(node).up) j.recovery.failures().suspect(node, by, by + ": " + why, c.now);
  return true;
}

void watch_suspects(job_call& c) {
  auto& failures = c.j.recovery.failures();
  const auto who = failures.overdue(c.now);
  if (!who) return;
  failures.clear_all();
  const auto out_of_it = who->node == c.self() ? who->by : who->node;
  if (c.j.plans.recovers() && !c.j.plans.next_is(successor::phase::swapping)) {
    failures.apart.insert(out_of_it);
    failures.not_now.insert(out_of_it);
  }
  lose(c, {}, who->why, {out_of_it});
}

}  // namespace troupe::control
