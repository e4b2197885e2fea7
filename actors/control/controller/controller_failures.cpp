// cluster_controller: nodes of a running job fail, leave and rejoin (docs/failures.md).
//
//   failed     the running plan cannot reach a boundary, because roles with its packets are gone.
//              The next plan, without those nodes, starts from the state of the shards that survive
//              (runtime/coordinator/surviving_state.hpp): checking -> preparing -> draining ->
//              swapping, as in controller_moves.cpp. If they do not have all state, or do not
//              report it within 10 s, it starts from the last saved state: checking -> preparing ->
//              swapping. The same applies to nodes that are absent when the job is to start
//   leaving    a node that shuts down is drained as by a user's command; it may exit when its roles
//              are on other nodes
//   hung       one of its tasks does not end: treated as failed, though its daemon runs
//   suspended  this daemon was stopped for so long that nodes closed their connections. They retain
//              their roles for a while (member.hpp) and join again, and the job continues on the
//              same nodes from what they have. Nodes that have not joined within 5 s have failed
//   rejoined   a node that failed or left and joins again is added at the next step boundary
//
// Invariants: a failure while a recovery plan is prepared restarts the recovery and is not counted
// again. A failure while nodes swap waits until the others have swapped; that plan never begins. A
// job that cannot continue fails with the node failure as its reason.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"

namespace troupe::control {
// `node`: the failed node; empty if only connections between nodes have failed.
void cluster_controller::lose(job& j, const std::string& node, const std::string& why, instant now, orders& out) {
  const bool first = !j.next || !j.next->goes_back();
  if (first) {
    const auto no = j.node_failures.note(why, now);
    if (no) return fail(j, node.empty() ? self_ : node, *no, now, out);
    // Answers the user that waits for the move.
    if (j.next) refuse_command(j, why, now, out);
  }
  if (j.next && j.next->at == successor::phase::swapping) {
    j.next->waiting.erase(node);
    j.next->broken = true;
    if (first) j.next->lost = why;
    if (j.next->waiting.empty()) swap_done(j, now, out);
    return;
  }
  auto held = j.next ? std::exchange(j.next->held, {}) : std::vector<command>();
  const auto reason = first ? why : j.next->lost;
  drop_successor(j, out);
  begin_recovery(j, reason, true, std::move(held), now, out);
}

// `held`: commands for the next plan. `live`: surviving state may be used.
void cluster_controller::begin_recovery(job& j, const std::string& why, bool live, std::vector<command> held, instant now,
                                        orders& out) {
  if (auto b = std::exchange(j.back, std::nullopt)) held.insert(held.end(), b->held.begin(), b->held.end());
  std::set<std::string> gone, without, down, silent;
  for (const auto& [name, m] : members_)
    if (!m.up || m.hung || (m.leaving && name != self_) || j.node_failures.apart.contains(name))
      down.insert(name);  // excluded from the next plan
  for (const auto& n : j.plan.nodes) {
    const auto& m = members_[n];
    if (!m.up || m.hung) gone.insert(n);
    if (down.contains(n)) without.insert(n);
    if (!m.up || m.hung || j.node_failures.apart.contains(n) || j.without_roles.contains(n)) silent.insert(n);
  }
  j.node_failures.clear_all();
  for (const auto& n : down)
    if (!j.changes.without.contains(n))
      j.node_failures.away.insert(n);  // nodes that users have drained are not added again when they rejoin
  successor n;
  n.plan_generation = ++j.generations;
  n.wish = {loss_of(down)};
  n.lost = why;
  n.gone = std::move(gone);
  n.without = std::move(without);
  n.silent = silent;
  n.held = std::move(held);
  n.was_suspended = now;
  n.deadline = now + successor::made_timeout;
  auto back = j.since;
  back.seconds = seconds_of(now - j.begun);
  back.live = live && j.plan_generation != ~0u;
  back.silent = std::move(silent);
  out.emplace_back(check_move{j.id, j.changes, n.wish, j.what, n.plan_generation, std::move(back)});
  j.next = std::move(n);
}

// Called when the plan without the failed nodes is ready on all its nodes.
void cluster_controller::ask_for_surviving_state(job& j, instant now, orders& out) {
  j.next->at = successor::phase::draining;
  j.next->deadline = now + successor::said_timeout;
  out.emplace_back(tell_job{j.id, {surviving_state_command{{j.next->silent.begin(), j.next->silent.end()}}}});
}

// The surviving nodes lack state that the job needs: restarts it from the last saved state.
void cluster_controller::nothing_is_left(job& j, const std::string& why, instant now, orders& out) {
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + " restarts from its last saved state: " + why});
  auto held = std::exchange(j.next->held, {});
  const auto lost = j.next->lost;
  drop_successor(j, out);
  begin_recovery(j, lost, false, std::move(held), now, out);
}

void cluster_controller::went_back(job& j, const successor& n, instant now, orders& out) {
  const auto reached = std::max(j.view.step, std::exchange(j.reached, 0));
  const auto again = reached > n.step ? reached - n.step : 0;
  j.view.step = n.step;
  const std::chrono::duration<double, std::milli> took = now - n.was_suspended;
  const auto text = n.lost + "; " + done_text({loss_of(n.without)});
  const bool from_nothing = n.step == 0 && !n.live && (again > 0 || j.restored);
  const auto* where = from_nothing ? "; there was no checkpoint, so training restarts at step 0" : "";
  const auto node = n.without.empty() ? std::string() : *n.without.begin();
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + ": " + text + " from step " + std::to_string(n.step)});
  on_event({j.id, {n.step, recovered_event{took.count(), again, node, text + where}}}, now, out);
  for (const auto& c : n.held) out.push_back(tell_job{j.id, c});
  if (j.stopping) out.push_back(tell_job{j.id, {stop_command{}}});
  take_back(j, now, out);
}

// A role of a working node has failed: all roles are restarted, as if the connections between them
// had failed. If a role fails again before the job has made a further step, the cause persists and
// the job fails. Returns true if the failure is handled here.
bool cluster_controller::restart_role(job& j, const std::string& where, const role_failure& what, const std::string& text,
                                      instant now, orders& out) {
  if (!j.node_failures.survives_any() || j.stopping || draining_) return false;
  if (j.next && j.next->goes_back()) return true;  // a recovery in progress ends that role anyway
  if (j.role_failed && j.view.step <= *j.role_failed) return false;
  j.role_failed = j.view.step;
  if (j.next && j.next->at == successor::phase::swapping) return lose(j, {}, text, now, out), true;
  const bool owns = what.role.starts_with("shard") || what.role.starts_with("coordinator");
  const auto no = j.node_failures.note(text, now);
  if (no) return fail(j, where, *no, now, out), true;
  auto held = j.next ? std::exchange(j.next->held, {}) : std::vector<command>();
  if (j.next) refuse_command(j, text, now, out);
  drop_successor(j, out);
  begin_recovery(j, text, !owns, std::move(held), now, out);
  return true;
}

// Drains nodes that shut down and adds nodes that have rejoined, one after the other, with one plan
// each.
void cluster_controller::take_back(job& j, instant now, orders& out) {
  if (j.next || j.back || j.stopping || draining_ || j.last || j.at != phase::running) return;
  for (const auto& n : j.plan.nodes)
    if (members_[n].up && members_[n].leaving && n != self_) return wish(j, {drain_command{n}}, now, out);
  for (const auto& n : j.node_failures.away)
    if (members_[n].usable() && !j.node_failures.not_now.contains(n)) return wish(j, {add_node_command{n}}, now, out);
}

// The plan for a node that shuts down or has rejoined was refused.
void cluster_controller::refused(job& j, const command& wish, instant now, orders& out) {
  if (const auto* added = wish.as<add_node_command>()) j.node_failures.not_now.insert(added->node);
  const auto* drained = wish.as<drain_command>();
  if (!drained || !members_[drained->node].leaving) return take_back(j, now, out);
  preempt(j, drained->node + " shuts down, and no other node can take its part", out);
}

// A task on this node does not end, and its thread cannot be interrupted. This job and later ones
// run without the node until the task ends or its daemon is restarted. The node's job executor,
// told to end the roles, waits for the task; the watchdog of the service manager then restarts the
// daemon.
void cluster_controller::lose_hung(job& j, const std::string& node, const std::string& why, instant now, orders& out) {
  if (node == self_ || !j.node_failures.survives_any() || j.stopping || draining_) return fail(j, node, why, now, out);
  members_[node].hung = true;
  ++members_[node].node_failures;
  out.push_back(to_peer{node, end_job{j.id, node, why, j.view.step}});
  lose(j, node, "node " + node + " is lost: " + why, now, out);
}

void cluster_controller::came_to_itself(const std::string& node, instant now, orders& out) {
  members_[node].hung = false;
  out.push_back(log_line{"the task on node " + node + " that was considered hung has ended"});
  auto* j = find(active_);
  if (j && j->at == phase::gathering) gather(*j, now, out);
  if (j && j->at == phase::running) take_back(*j, now, out);
}

// --- this daemon was suspended

// Returns true if more than 3 s have passed since the last tick. Peers close a connection that is
// silent for 4 s.
bool cluster_controller::was_suspended(instant now) const {
  constexpr auto ticks_missed = std::chrono::seconds(3);
  return clock_.ticked != instant{} && now - clock_.ticked > ticks_missed;
}

// The connection with a node of the running job has ended. Returns true if the probable cause is
// that this daemon was suspended, so that the node may still have its roles.
bool cluster_controller::comes_back(job& j, const std::string& peer, instant now) {
  j.without_roles.insert(peer);
  const bool sleeps = was_suspended(now);
  const bool slept = clock_.woke != instant{} && now - clock_.woke < rejoining::within;
  if (j.next || draining_ || !j.node_failures.survives_any() || (!sleeps && !slept)) return false;
  if (!j.back) {
    const auto s = std::chrono::duration_cast<std::chrono::seconds>(sleeps ? now - clock_.ticked : clock_.slept).count();
    j.back = rejoining{{}, self_ + " was suspended for " + std::to_string(s) + " s, and nodes closed their connections", now};
  }
  j.back->waiting.insert(peer);
  return true;
}

// Returns false if the node must first end the roles of a former plan.
bool cluster_controller::rejoins(job* j, const std::string& from, const join& m, orders& out) {
  if (m.job != 0) {
    const bool wanted = j && j->back && m.job == j->id && m.plan_generation == j->plan_generation &&
                        members_[from].said.incarnation == m.incarnation;
    if (!wanted) return out.push_back(to_peer{from, joined{{}, m.job}}), false;
    j->without_roles.erase(from);
  }
  if (j && j->back) j->back->waiting.erase(from);
  out.push_back(to_peer{from, joined{}});
  return true;
}

void cluster_controller::watch_rejoining(job& j, instant now, orders& out) {
  const auto b = *j.back;
  if (now - b.since < (b.waiting.empty() ? rejoining::all_heard : rejoining::within)) return;
  const auto no = j.node_failures.note(b.why, now);
  if (no) return fail(j, self_, *no, now, out);
  begin_recovery(j, b.why, true, {}, now, out);
  j.next->was_suspended = b.since;
}

// A node of the job shuts down. Returns false if the job has to stop for it.
bool cluster_controller::take_leave(job& j, const std::string& node, instant now, orders& out) {
  if (!j.node_failures.survives_any() || j.stopping || draining_ || node == self_) return false;
  take_back(j, now, out);  // or later, when the next plan has begun
  return true;
}

// `by` cannot reach `peer`. Waits for a grace time, since the end of `peer` itself is usually
// reported within it. Returns false if the job cannot survive that failure.
bool cluster_controller::unreachable(job& j, const std::string& peer, const std::string& by, const std::string& why, instant now,
                                     orders& out) {
  const auto at = members_.find(peer);
  if (at == members_.end() || peer == by || !has_part(j, peer) || !failure_book(j.plan.max_failures).survives_any()) return false;
  if (j.at == phase::preparing) runs(j, now, out);
  if (at->second.up) j.node_failures.suspect(peer, by, "node " + peer + " is lost: " + by + " " + why, now);
  return true;
}

// A connection between two running nodes has failed, with the messages in flight. All roles are
// restarted; if the connection fails again during that recovery, one of the two nodes is left out.
void cluster_controller::watch_suspects(job& j, instant now, orders& out) {
  const auto who = j.node_failures.overdue(now);
  if (!who) return;
  j.node_failures.clear_all();
  if (!j.next || !j.next->goes_back() || j.next->at == successor::phase::swapping) return lose(j, {}, who->why, now, out);
  const auto out_of_it = who->node == self_ ? who->by : who->node;
  j.node_failures.apart.insert(out_of_it);
  j.node_failures.not_now.insert(out_of_it);
  lose(j, {}, who->why, now, out);
}

}  // namespace troupe::control
