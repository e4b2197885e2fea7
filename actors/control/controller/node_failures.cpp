#include "actors/control/controller/node_failures.hpp"

#include "actors/control/controller/job_commands.hpp"
#include "actors/control/controller/job_events.hpp"
#include "actors/control/controller/job_phases.hpp"
#include "actors/control/controller/plan_changes.hpp"

namespace troupe::control {
namespace {

bool may_recover(const job_call& c) { return c.j.recovery.failures().survives_any() && !c.j.run.stopping() && !c.draining; }

}  // namespace

void lose(job_call& c, const std::string& node, const std::string& why) {
  auto& j = c.j;
  const bool first = !j.plans.recovers();
  if (first) {
    const auto no = j.recovery.failures().note(why, c.now);
    if (no) return fail(c, node.empty() ? c.self() : node, *no);
    if (j.plans.next() && !j.plans.next_is(successor::phase::swapping)) say_refused(c, why, j.plans.next()->wish.id);
  }
  if (j.plans.next_is(successor::phase::swapping)) {
    j.plans.break_swap(node, why);
    if (j.plans.all_swapped()) swap_done(c);
    return;
  }
  const auto reason = first ? why : j.plans.next()->loss->why;
  drop_successor(c);
  begin_recovery(c, reason, true);
}

void begin_recovery(job_call& c, const std::string& why, bool live) {
  auto& j = c.j;
  j.recovery.end_rejoining();
  auto [down, loss] = j.recovery.assess(why, c.nodes, j.plan.nodes, j.plans.changes().without);
  going_back back{j.recovery.settings(), j.recovery.role_pauses()};
  back.seconds = seconds_of(c.now - j.run.begun());
  back.live = live && j.plans.generation();
  back.silent = loss.silent;
  const command lost{loss_of(down)};
  const auto generation = j.plans.recover(std::move(loss), lost, c.now);
  c.out.emplace_back(check_move{j.id, j.plans.changes(), lost, j.from.what, generation, std::move(back)});
}

void ask_for_surviving_state(job_call& c) {
  c.j.plans.collect_state(c.now);
  const auto& silent = c.j.plans.next()->loss->silent;
  c.tell({surviving_state_command{{silent.begin(), silent.end()}}});
}

void nothing_is_left(job_call& c, const std::string& why) {
  auto& j = c.j;
  c.log(j.text() + " restarts from its last saved state: " + why);
  const auto lost = j.plans.next()->loss->why;
  drop_successor(c);
  begin_recovery(c, lost, false);
}

void went_back(job_call& c, const successor& n) {
  auto& j = c.j;
  const auto again = j.recovery.steps_again(j.view.step, n.step);
  j.view.step = n.step;
  const std::chrono::duration<double, std::milli> took = c.now - n.stopped;
  const auto text = n.loss->why + "; " + done_text({loss_of(n.loss->without)});
  const bool from_nothing = n.step == 0 && !n.live() && (again > 0 || j.from.restored);
  const auto* where = from_nothing ? "; there was no checkpoint, so training restarts at step 0" : "";
  const auto node = n.loss->without.empty() ? std::string() : *n.loss->without.begin();
  c.log(j.text() + ": " + text + " from step " + std::to_string(n.step));
  on_event(c, {j.id, {n.step, recovered_event{took.count(), again, node, text + where}}});
  for (const auto& wish : j.plans.take_adopted()) change_made(c, wish, n.step, took.count());
  j.commands.tell_again();
  tell_waiting(c);
  take_back(c);
}

bool restart_role(job_call& c, const std::string& where, const role_failure& what, const std::string& text) {
  auto& j = c.j;
  if (!may_recover(c)) return false;
  if (j.plans.recovers()) return true;  // a recovery in progress ends that role anyway
  if (!j.recovery.may_restart_roles(j.view.step)) return false;
  if (j.plans.next_is(successor::phase::swapping)) return lose(c, {}, text), true;
  const bool owns = what.role.starts_with("shard") || what.role.starts_with("coordinator");
  const auto no = j.recovery.failures().note(text, c.now);
  if (no) return fail(c, where, *no), true;
  if (j.plans.next()) say_refused(c, text, j.plans.next()->wish.id);
  drop_successor(c);
  begin_recovery(c, text, !owns);
  return true;
}

void take_back(job_call& c) {
  auto& j = c.j;
  if (j.plans.next() || j.recovery.rejoins() || j.run.stopping() || c.draining || j.log.ended() || !j.run.runs()) return;
  for (const auto& n : j.plan.nodes)
    if (c.nodes.at(n).up && c.nodes.at(n).leaving && n != c.self()) return wish(c, {drain_command{n}});
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
  j.recovery.lost_connection(node);
  const auto suspended = c.nodes.clock().suspended(c.now);
  if (j.plans.next() || c.draining || !j.recovery.failures().survives_any() || !suspended) return false;
  j.recovery.await(node,
                   c.self() + " was suspended for " + std::to_string(suspended->count()) + " s, and nodes closed their connections",
                   c.now);
  return true;
}

void watch_rejoining(job_call& c) {
  auto& j = c.j;
  if (!j.recovery.rejoins()->over(c.now)) return;
  const auto why = j.recovery.rejoins()->why;
  const auto since = j.recovery.rejoins()->since;
  const auto no = j.recovery.failures().note(why, c.now);
  if (no) return fail(c, c.self(), *no);
  begin_recovery(c, why, true);
  j.plans.stopped_at(since);
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
  if (c.nodes.at(node).up) j.recovery.failures().suspect(node, by, "node " + node + " is lost: " + by + " " + why, c.now);
  return true;
}

void watch_suspects(job_call& c) {
  auto& failures = c.j.recovery.failures();
  const auto who = failures.overdue(c.now);
  if (!who) return;
  failures.clear_all();
  if (c.j.plans.recovers() && !c.j.plans.next_is(successor::phase::swapping)) {
    const auto out_of_it = who->node == c.self() ? who->by : who->node;
    failures.apart.insert(out_of_it);
    failures.not_now.insert(out_of_it);
  }
  lose(c, {}, who->why);
}

}  // namespace troupe::control
