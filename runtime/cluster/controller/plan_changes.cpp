#include "runtime/cluster/controller/plan_changes.hpp"

#include <algorithm>
#include <utility>

#include "runtime/cluster/controller/job_commands.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/controller/node_failures.hpp"

namespace troupe::control {
namespace {

revise revision(const prepare& p, std::uint32_t plan_generation, const amendments& a) {
  revise r{p, plan_generation, {}, {a.without.begin(), a.without.end()}, a.mode, a.mode_options, a.packets};
  for (const auto& w : a.layers) r.layers.push_back({w.layer, w.place, w.whole});
  return r;
}

// Tells the nodes of the next plan to prepare it. An error if one of them cannot be part of it.
expected<void> prepare_next_plan(job_call& c) {
  auto& j = c.j;
  const auto& n = *j.plans.next();
  const auto& nodes = n.plan->plan.nodes;
  prepare p{j.id, j.from.what, n.plan->plan.plan_hash, {}, false, 0, j.view.owner};
  for (const auto& name : nodes) {
    const auto& m = c.nodes.at(name);
    if (!m.usable()) return unexpected(error("no daemon answers as " + name + ", which the new plan uses"));
    if (j.plan.deterministic && m.said.numerics != c.nodes.at(j.plan.nodes.front()).said.numerics)
      return unexpected(
          error("node " + name + " (" + m.said.numerics + ") does not compute the same numbers; deterministic = false allows it"));
    p.places.push_back({name, m.said.data_address, m.said.incarnation});
  }
  const auto next = revision(p, n.plan_generation, n.plan->changes);
  if (auto fits = check_frame(next); !fits) return fits;
  j.plans.prepare(c.now);
  for (const auto& name : nodes) c.send(name, next);
  return {};
}

// Refuses the requested change: nothing has changed yet, and the running plan continues.
void refuse(job_call& c, const std::string& why) {
  auto& j = c.j;
  const auto& n = j.plans.next();
  if (j.plans.recovers())  // a recovery cannot be refused: the job fails
    return fail(c, n->loss->gone.empty() ? c.self() : *n->loss->gone.begin(), n->loss->why + "; " + why);
  const auto wanted = n ? n->wish : command{};
  drop_successor(c);
  tell_waiting(c);
  say_refused(c, why, wanted.id);
  refused(c, wanted);
}

void begin_swap(job_call& c, std::uint64_t step) {
  auto& j = c.j;
  const auto& n = *j.plans.next();
  std::set<std::string> nodes;
  for (const auto* list : {&std::as_const(j).plan.nodes, &n.plan->plan.nodes})
    for (const auto& name : *list) {
      const bool has_failed = n.loss && n.loss->gone.contains(name);  // one that has rejoined has no roles yet
      if (c.nodes.at(name).up && !has_failed) nodes.insert(name);
    }
  j.plans.swap(step, nodes, c.now);
  for (const auto& name : nodes) c.send(name, control::swap{j.id, n.plan_generation, step});
}

}  // namespace

void say_refused(job_call& c, const std::string& why, command_id id) {
  on_event(c, {c.j.id, {c.j.view.step, refused_event{why}, answers_to(id)}});
}

void wish(job_call& c, const command& what) {
  auto& j = c.j;
  if (what.id != 0) j.commands.add_for_host(what);
  const auto no = [&](const std::string& why) { say_refused(c, why, what.id); };
  if (j.recovery.rejoins()) return no("failed nodes are rejoining");
  if (j.plans.recovers()) return no("the job recovers from a failure (" + j.plans.next()->loss->why + "); try again");
  if (j.plans.next()) return no("another move is under way: " + done_text(j.plans.next()->wish));
  if (j.run.stopping() || c.draining) return no("the job is ending");
  if (const auto* d = what.as<drain_command>(); d && j.recovery.stays_away(d->node)) {
    note_changes(c);
    return on_event(c, {j.id, {j.view.step, moved_event{0, done_text(what)}, answers_to(what.id)}});
  }
  std::string node;  // that the new plan needs
  if (const auto* m = what.as<move_command>()) node = m->place.substr(0, m->place.find('/'));
  if (const auto* a = what.as<add_node_command>()) node = a->node;
  if (c.nodes.at(node).hung) return no("a task on " + node + " does not end");
  if (c.nodes.knows(node) && !c.nodes.at(node).usable()) {
    const bool returns = what.is<add_node_command>() && j.recovery.failures().away.contains(node);
    return no("no daemon answers as " + node + (returns ? "; the job uses it again when it joins" : ""));
  }
  const auto generation = j.plans.change(what, c.now);
  c.out.emplace_back(check_move{j.id, j.plans.changes(), what, {}, generation, {}});
}

void on_plan_found(job_call& c, const plan_found& f) {
  auto& j = c.j;
  if (!j.run.runs() || !j.plans.next_is(successor::phase::checking) || !j.plans.next_is(f.plan_generation)) return;
  if (!f.error.empty()) return refuse(c, f.error);
  const auto down = [&](const std::string& n) { return !c.nodes.at(n).usable(); };
  if (j.plans.recovers() && std::any_of(f.plan.nodes.begin(), f.plan.nodes.end(), down)) return begin_recovery_again(c, true);
  j.plans.found(f, c.now);
  if (const auto prepared = prepare_next_plan(c); !prepared) refuse(c, prepared.error().text);
}

void take(job_call& c, const std::string& from, const revised& m) {
  auto& j = c.j;
  if (!j.run.runs() || !j.plans.next_is(m.plan_generation)) return;
  const bool prepared_already = j.plans.next()->at > successor::phase::preparing;
  if (!m.error.empty()) {
    if ((j.plans.recovers() || prepared_already) && unreachable(c, m.peer, from, m.error)) return;
    if (prepared_already) return fail(c, from, "node " + from + ": " + m.error);
    return refuse(c, "node " + from + ": " + m.error);
  }
  if (!j.plans.ready(from, c.now)) return;
  if (j.plans.next()->live()) return ask_for_surviving_state(c);
  if (j.plans.recovers()) return begin_swap(c, j.plans.next()->step);
  j.plans.hand_over();
  c.tell({handover_command{j.plans.next()->plan->mode}});
}

void on_handover(job_call& c, std::uint64_t step) {
  auto& j = c.j;
  if (!j.run.runs() || !j.plans.next_is(successor::phase::draining)) return;
  if (!j.plans.recovers()) j.plans.stopped_at(c.now);
  begin_swap(c, step);
}

void take(job_call& c, const std::string& from, const swapped& m) {
  auto& j = c.j;
  if (!j.run.runs() || !j.plans.next_is(m.plan_generation) || !j.plans.next_is(successor::phase::swapping)) return;
  if (!m.error.empty()) return fail(c, from, "node " + from + ": " + m.error);
  if (!j.plans.swapped(from, c.now)) return;
  j.run.sent(m.tcp_bytes);
  if (j.plans.all_swapped()) swap_done(c);
}

void swap_done(job_call& c) {
  auto& j = c.j;
  auto n = j.plans.begin();
  j.plan = n.plan->plan;
  j.recovery.has_all_roles();
  j.view.about = j.plan.about;
  j.run.progressed(c.now);
  if (!j.recovery.role_pauses()) j.run.pause(false);  // a role that begins paused reports it
  if (n.broken && j.recovery.rejoins()) return;
  if (n.broken) {
    begin_recovery(c, *n.loss, false);
    return j.plans.instead_of(n);
  }
  c.out.emplace_back(begin_job{j.id});
  j.recovery.uses_all_but(j.plans.changes().without);
  if (n.recovers()) return went_back(c, n);
  const std::chrono::duration<double, std::milli> took = c.now - n.stopped;
  change_made(c, {n.wish, n.node_returns}, n.step, took.count());
  j.commands.tell_again();
  tell_waiting(c);
  take_back(c);
}

void change_made(job_call& c, const plan_change& change, std::uint64_t step, double ms) {
  auto& j = c.j;
  if (const auto* d = change.wish.as<drain_command>(); d && change.node_returns) j.recovery.failures().away.insert(d->node);
  note_changes(c);
  on_event(c, {j.id, {step, moved_event{ms, done_text(change.wish)}, answers_to(change.wish.id)}});
  c.log(j.text() + ": " + done_text(change.wish) + " at step " + std::to_string(step));
}

void drop_successor(job_call& c) {
  auto& j = c.j;
  auto n = j.plans.drop();
  if (!n) return;
  if (n->at != successor::phase::checking)
    for (const auto& name : n->plan->plan.nodes)
      if (c.nodes.at(name).up) c.send(name, forget{j.id, n->plan_generation});
}

bool lost_to_successor(job_call& c, const std::string& node, const std::string& why) {
  auto& j = c.j;
  const auto& n = j.plans.next();
  if (!n || !j.run.runs() || n->at == successor::phase::checking) return false;
  const bool before = j.uses(node), after = n->uses(node);
  if (n->at == successor::phase::swapping && before && !after) {  // its roles are gone in either case
    if (j.plans.swapped(node, c.now) && j.plans.all_swapped()) swap_done(c);
    return true;
  }
  if (before || !after) return false;
  if (n->at == successor::phase::preparing && !n->recovers())
    refuse(c, why);
  else if (!comes_back(c, node))
    lose(c, node, why);
  return true;
}

void watch_successor(job_call& c) {
  auto& plans = c.j.plans;
  if (!plans.overdue(c.now)) return;
  const auto& n = *plans.next();
  if (n.at == successor::phase::draining) return nothing_is_left(c, "not all nodes reported their state within 10 s");
  const auto who = n.awaited.empty() ? c.self() : *n.awaited.begin();
  if (n.at == successor::phase::swapping) return fail(c, who, "node " + who + " did not switch to the new plan within 60 s");
  refuse(c, who + " did not get ready for the new plan within 60 s");
}

}  // namespace troupe::control
