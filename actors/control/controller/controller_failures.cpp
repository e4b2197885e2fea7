// cluster_controller: nodes of a running job fail, leave, and join again (docs/failures.md).
//
//   lost        the plan that runs cannot come to a boundary: its packets are on their way to roles that are gone. So the next plan, without
//               those nodes, begins with what the shards that live have (runtime/coordinator/surviving_state.hpp): checking -> preparing -> draining ->
//               swapping, as in controller_moves.cpp; or, where they have not all or do not say so within 10 s, with what the keeper has kept
//               last of the job: checking -> preparing -> swapping
//               The same where nodes are not there when the job is to begin
//   leaving     a node that shuts down is drained like by a person's word, and may go when its roles are elsewhere
//   hung        one of its tasks does not end: as lost, though its daemon is there
//   stopped     this daemon itself stood still for so long that nodes have given it up: they keep their roles for a while (member.hpp), join again, and
//               the same nodes go on from what they have. Who has not joined within 5 s is lost
//   back        a node that was lost or has left, and joins again, is added at the next step boundary
//
// Invariants: a loss while a plan is prepared for an earlier one begins that anew, and is not
// counted again; one while nodes swap waits until the others have swapped, and that plan is never
// begun. A job that cannot go on fails with the loss as its reason.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"

namespace troupe::control {
// `node`: empty when all are there and only connections between them are gone.
void cluster_controller::lose(job& j, const std::string& node, const std::string& why, instant now, orders& out) {
  const bool first = !j.next || !j.next->goes_back();
  if (first) {
    const auto no = j.node_failures.note(why, now);
    if (no) return fail(j, node.empty() ? self_ : node, *no, now, out);
    // Who waits for the move hears that nothing comes of it.
    if (j.next) on_event({j.id, {"refused", j.view.step, {}, why}, {}}, now, out);
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

// `held`: words that wait for the plan to come. `live`: it may go on from what the others have.
void cluster_controller::begin_recovery(job& j, const std::string& why, bool live, std::vector<command> held, instant now,
                                        orders& out) {
  if (auto b = std::exchange(j.back, std::nullopt)) held.insert(held.end(), b->held.begin(), b->held.end());
  std::set<std::string> gone, without, down, silent;
  for (const auto& [name, m] : members_)
    if (!m.up || m.hung || (m.leaving && name != self_) || j.node_failures.apart.contains(name))
      down.insert(name);  // no plan may be made for them
  for (const auto& n : j.plan.nodes) {
    const auto& m = members_[n];
    if (!m.up || m.hung) gone.insert(n);
    if (down.contains(n)) without.insert(n);
    if (!m.up || m.hung || j.node_failures.apart.contains(n) || j.without_roles.contains(n)) silent.insert(n);
  }
  j.node_failures.clear_all();
  for (const auto& n : down)
    if (!j.changes.without.contains(n))
      j.node_failures.away.insert(n);  // those that people have drained stay so when they are back
  successor n;
  n.plan_generation = ++j.generations;
  n.wish = loss_of(down);
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

// The plan without the lost nodes is ready everywhere.
void cluster_controller::ask_for_surviving_state(job& j, instant now, orders& out) {
  j.next->at = successor::phase::draining;
  j.next->deadline = now + successor::said_timeout;
  auto question = loss_of(j.next->silent);
  question.name = "surviving_state";
  out.emplace_back(tell_job{j.id, std::move(question)});
}

// The others have not all that the job needs: it goes back.
void cluster_controller::nothing_is_left(job& j, const std::string& why, instant now, orders& out) {
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + " goes back to what was kept last: " + why});
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
  const auto text = n.lost + "; " + done_text(loss_of(n.without));
  const bool from_nothing = n.step == 0 && !n.live && (again > 0 || j.restored);
  const auto* where = from_nothing ? "; there was no checkpoint, so training restarts at step 0" : "";
  job_event e{j.id, {"recovered", n.step, {{"ms", took.count()}, {"steps_again", static_cast<double>(again)}}, text + where}, {}};
  if (!n.without.empty()) e.texts = {{"where", *n.without.begin()}};
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + ": " + text + " from step " + std::to_string(n.step)});
  on_event(e, now, out);
  for (const auto& c : n.held) out.push_back(tell_job{j.id, c});
  if (j.stopping) out.push_back(tell_job{j.id, {"stop", {}, 0, {}}});
  take_back(j, now, out);
}

// A role of a living node has failed: all are begun anew, as if the connections between them were
// gone. One that fails again before the job has come any further fails for a reason that is still
// there. True: the job goes on.
bool cluster_controller::restart_role(job& j, const std::string& where, const std::string& text, instant now, orders& out) {
  if (!j.node_failures.survives_any() || j.stopping || draining_) return false;
  if (j.next && j.next->goes_back()) return true;  // it ends with the plan that is left
  if (j.role_failed && j.view.step <= *j.role_failed) return false;
  j.role_failed = j.view.step;
  if (j.next && j.next->at == successor::phase::swapping) return lose(j, {}, text, now, out), true;
  const bool owns = text.find("role shard") != std::string::npos || text.find("role coordinator") != std::string::npos;
  const auto no = j.node_failures.note(text, now);
  if (no) return fail(j, where, *no, now, out), true;
  auto held = j.next ? std::exchange(j.next->held, {}) : std::vector<command>();
  if (j.next) on_event({j.id, {"refused", j.view.step, {}, text}, {}}, now, out);
  drop_successor(j, out);
  begin_recovery(j, text, !owns, std::move(held), now, out);
  return true;
}

// Nodes that shut down, and those that are there again: one after the other, each a plan of its
// own.
void cluster_controller::take_back(job& j, instant now, orders& out) {
  if (j.next || j.back || j.stopping || draining_ || j.last || j.at != phase::running) return;
  for (const auto& n : j.plan.nodes)
    if (members_[n].up && members_[n].leaving && n != self_) return wish(j, {"drain", n, 0, {}}, now, out);
  for (const auto& n : j.node_failures.away)
    if (members_[n].usable() && !j.node_failures.not_now.contains(n)) return wish(j, {"add-node", n, 0, {}}, now, out);
}

// Nothing comes of a plan for a node that shuts down, or is back.
void cluster_controller::refused(job& j, const command& wish, instant now, orders& out) {
  if (wish.name == "add-node") j.node_failures.not_now.insert(wish.key);
  if (wish.name != "drain" || !members_[wish.key].leaving) return take_back(j, now, out);
  preempt(j, wish.key + " shuts down, and nobody can take its part", out);
}

// A task on this node does not end, and nobody can take its thread from it: this job and those
// after it do without the node, until it ends after all or its daemon has been started again. Told
// to end its roles the node's keeper waits for that task, and the watchdog of its service manager
// sees it.
void cluster_controller::lose_hung(job& j, const std::string& node, const std::string& why, instant now, orders& out) {
  if (node == self_ || !j.node_failures.survives_any() || j.stopping || draining_) return fail(j, node, why, now, out);
  members_[node].hung = true;
  ++members_[node].node_failures;
  out.push_back(to_peer{node, end_job{j.id, node, why, j.view.step}});
  lose(j, node, "node " + node + " is lost: " + why, now, out);
}

void cluster_controller::came_to_itself(const std::string& node, instant now, orders& out) {
  members_[node].hung = false;
  out.push_back(log_line{"the task on node " + node + " that was taken for hung has ended"});
  auto* j = find(active_);
  if (j && j->at == phase::gathering) gather(*j, now, out);
  if (j && j->at == phase::running) take_back(*j, now, out);
}

// --- this daemon stood still

// Since its last tick. Its peers hear nothing of a daemon for 4 s and give it up.
bool cluster_controller::was_suspended(instant now) const {
  constexpr auto ticks_missed = std::chrono::seconds(3);
  return clock_.ticked != instant{} && now - clock_.ticked > ticks_missed;
}

// The connection with a node of a job that runs has ended. True: because this daemon stood still,
// most likely, so that the node may have its roles still.
bool cluster_controller::comes_back(job& j, const std::string& peer, instant now) {
  j.without_roles.insert(peer);
  const bool sleeps = was_suspended(now);
  const bool slept = clock_.woke != instant{} && now - clock_.woke < rejoining::within;
  if (j.next || draining_ || !j.node_failures.survives_any() || (!sleeps && !slept)) return false;
  if (!j.back) {
    const auto s = std::chrono::duration_cast<std::chrono::seconds>(sleeps ? now - clock_.ticked : clock_.slept).count();
    j.back = rejoining{{}, self_ + " stood still for " + std::to_string(s) + " s, and others gave it up", now};
  }
  j.back->waiting.insert(peer);
  return true;
}

// False: it still has roles of a plan that is over, and joins when they are gone.
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

// A node of the job shuts down. False: the job has to stop for it.
bool cluster_controller::take_leave(job& j, const std::string& node, instant now, orders& out) {
  if (!j.node_failures.survives_any() || j.stopping || draining_ || node == self_) return false;
  take_back(j, now, out);  // or when the plan to come has begun
  return true;
}

// `by` cannot reach `peer`: most often its own end is heard of within the grace. False: that is no
// loss that the job may outlive.
bool cluster_controller::unreachable(job& j, const std::string& peer, const std::string& by, const std::string& why, instant now,
                                     orders& out) {
  const auto at = members_.find(peer);
  if (at == members_.end() || peer == by || !has_part(j, peer) || !failure_book(j.plan.max_failures).survives_any()) return false;
  if (j.at == phase::preparing) runs(j, now, out);
  if (at->second.up) j.node_failures.suspect(peer, by, "node " + peer + " is lost: " + by + " " + why, now);
  return true;
}

// A connection between two nodes that are both there is gone, and what travelled on it; where it
// does not come up again, one of them stays out.
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
