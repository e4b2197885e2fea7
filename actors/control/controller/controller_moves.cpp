// cluster_controller: replaces the plan of a running job by its next plan (docs/moving.md).
//
//   checking    the job executor makes a plan of the requested change, or refuses it
//   preparing   every node of that plan makes it too and connects to the others; training continues
//               (60 s, else refused)
//   draining    the coordinator role runs to a step boundary and hands over; further commands wait
//   swapping    every node of either plan ends its roles of the old plan and begins those of the
//               new one (60 s, else the job fails)
//
// Invariants: one next plan at a time. Before `draining` a refusal changes nothing. From `draining`
// on the failure of a node of the new plan is a failure of the job (controller_failures.cpp). So is
// the failure of a node of the old plan at any time, unless that node has only its roles left to
// end.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto swap_timeout = 60s;

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

revise revision(const prepare& p, std::uint32_t plan_generation, const amendments& a) {
  revise r{p, plan_generation, {}, {a.without.begin(), a.without.end()}, a.mode, a.mode_options, a.packets};
  for (const auto& w : a.layers) r.layers.push_back({w.layer, w.place, w.whole});
  return r;
}

}  // namespace

// Commands are held for the next coordinator role if the present one may have ended.
void cluster_controller::tell_or_hold(job& j, command c, orders& out) {
  if (j.back)
    j.back->held.push_back(std::move(c));
  else if (j.next && (j.next->goes_back() || j.next->at >= successor::phase::draining))
    j.next->held.push_back(std::move(c));
  else
    out.emplace_back(tell_job{j.id, std::move(c)});
}

void cluster_controller::wish(job& j, const command& c, instant now, orders& out) {
  const auto no = [&](const std::string& why) { refuse_command(j, why, now, out); };
  if (j.back) return no("failed nodes are rejoining");
  if (j.next) return no("another move is under way: " + done_text(j.next->wish));
  if (j.stopping || draining_) return no("the job is ending");
  std::string node;  // that the new plan needs
  if (const auto* m = c.as<move_command>()) node = m->place.substr(0, m->place.find('/'));
  if (const auto* a = c.as<add_node_command>()) node = a->node;
  const auto at = members_.find(node);
  if (at != members_.end() && at->second.hung) return no("a task on " + node + " does not end");
  if (at != members_.end() && !at->second.usable()) return no("no daemon answers as " + node);
  j.next = successor{};
  j.next->plan_generation = ++j.generations;
  j.next->wish = c;
  j.next->deadline = now + successor::made_timeout;
  out.emplace_back(check_move{j.id, j.changes, c, {}, j.next->plan_generation, {}});
}

void cluster_controller::on_plan_found(const plan_found& f, instant now, orders& out) {
  auto* j = find(f.job);
  if (!j || !j->next || j->next->at != successor::phase::checking || j->at != phase::running ||
      f.plan_generation != j->next->plan_generation)
    return;
  if (!f.error.empty()) return refuse(*j, f.error, now, out);
  j->next->step = f.from;
  j->next->changes = f.changes;
  j->next->plan = f.plan;
  j->next->mode = f.mode;
  const auto down = [&](const std::string& n) { return !members_[n].usable(); };
  if (j->next->goes_back() && std::any_of(f.plan.nodes.begin(), f.plan.nodes.end(), down))
    return begin_recovery(*j, j->next->lost, true, std::move(j->next->held), now, out);
  j->next->live = f.live;
  if (const auto why = prepare_successor(*j, now, out); !why.empty()) refuse(*j, why, now, out);
}

std::string cluster_controller::prepare_successor(job& j, instant now, orders& out) {
  auto& n = *j.next;
  prepare p{j.id, j.what, n.plan.plan_hash, {}, false, 0};
  for (const auto& name : n.plan.nodes) {
    const auto& m = members_[name];
    if (!m.usable()) return "no daemon answers as " + name + ", which the new plan uses";
    if (j.plan.deterministic && m.said.numerics != members_[j.plan.nodes.front()].said.numerics)
      return "node " + name + " (" + m.said.numerics + ") does not compute the same numbers; deterministic = false allows it";
    p.places.push_back({name, m.said.data_address, m.said.incarnation});
  }
  n.at = successor::phase::preparing;
  n.deadline = now + successor::made_timeout;
  n.waiting = {n.plan.nodes.begin(), n.plan.nodes.end()};
  for (const auto& name : n.plan.nodes) out.emplace_back(to_peer{name, revision(p, n.plan_generation, n.changes)});
  return {};
}

// Refuses the requested change: nothing has changed yet, and the running plan continues.
void cluster_controller::refuse(job& j, const std::string& why, instant now, orders& out) {
  if (j.next && j.next->goes_back())  // a recovery cannot be refused: the job fails
    return fail(j, j.next->gone.empty() ? self_ : *j.next->gone.begin(), j.next->lost + "; " + why, now, out);
  const auto wish = j.next ? j.next->wish : command{};
  drop_successor(j, out);
  refuse_command(j, why, now, out);
  refused(j, wish, now, out);
}

void cluster_controller::drop_successor(job& j, orders& out) {
  if (!j.next) return;
  auto n = std::move(*j.next);
  j.next.reset();
  for (const auto& name : n.plan.nodes)
    if (n.at != successor::phase::checking && members_[name].up) out.emplace_back(to_peer{name, forget{j.id, n.plan_generation}});
  if (j.at != phase::running || j.last) return;
  for (auto& c : n.held) out.emplace_back(tell_job{j.id, std::move(c)});
}

void cluster_controller::take(const std::string& from, const revised& m, instant now, orders& out) {
  auto* j = find(m.job);
  if (!j || !j->next || m.plan_generation != j->next->plan_generation || j->at != phase::running) return;
  auto& n = *j->next;
  if (!m.error.empty()) {
    if ((n.goes_back() || n.at > successor::phase::preparing) && unreachable(*j, m.peer, from, m.error, now, out)) return;
    if (n.at > successor::phase::preparing) return fail(*j, from, "node " + from + ": " + m.error, now, out);
    return refuse(*j, "node " + from + ": " + m.error, now, out);
  }
  if (n.at != successor::phase::preparing || n.waiting.erase(from) == 0 || !n.waiting.empty()) return;
  if (n.live) return ask_for_surviving_state(*j, now, out);
  if (n.goes_back()) return begin_swap(*j, n.step, now, out);
  n.at = successor::phase::draining;
  out.emplace_back(tell_job{j->id, {handover_command{n.mode}}});
}

void cluster_controller::on_handover(std::uint32_t job_id, std::uint64_t step, instant now, orders& out) {
  auto* j = find(job_id);
  if (!j || !j->next || j->next->at != successor::phase::draining || j->at != phase::running) return;
  if (!j->next->goes_back()) j->next->was_suspended = now;
  begin_swap(*j, step, now, out);
}

void cluster_controller::begin_swap(job& j, std::uint64_t step, instant now, orders& out) {
  auto& n = *j.next;
  n.at = successor::phase::swapping;
  n.step = step;
  n.deadline = now + swap_timeout;
  for (const auto* list : {&j.plan.nodes, &n.plan.nodes})
    for (const auto& name : *list)
      if (members_[name].up && !n.gone.contains(name)) n.waiting.insert(name);  // a node that has rejoined has no roles yet
  for (const auto& name : n.waiting) out.emplace_back(to_peer{name, swap{j.id, n.plan_generation, step}});
}

void cluster_controller::take(const std::string& from, const swapped& m, instant now, orders& out) {
  auto* j = find(m.job);
  if (!j || !j->next || m.plan_generation != j->next->plan_generation || j->next->at != successor::phase::swapping ||
      j->at != phase::running)
    return;
  if (!m.error.empty()) return fail(*j, from, "node " + from + ": " + m.error, now, out);
  if (j->next->waiting.erase(from) == 0) return;
  j->tcp_bytes += m.tcp_bytes;
  if (j->next->waiting.empty()) swap_done(*j, now, out);
}

void cluster_controller::swap_done(job& j, instant now, orders& out) {
  auto n = std::move(*j.next);
  j.next.reset();
  j.plan = n.plan;
  j.plan_generation = n.broken ? ~0u : n.plan_generation;  // ~0: roles that never began have no state
  j.without_roles.clear();
  j.changes = n.changes;
  j.view.about = j.plan.about;
  j.progress_at = now;
  j.begins = true;
  if (n.broken) return begin_recovery(j, n.lost, false, std::move(n.held), now, out);
  out.emplace_back(begin_job{j.id});
  if (n.goes_back()) return went_back(j, n, now, out);
  if (const auto* a = n.wish.as<add_node_command>()) j.node_failures.away.erase(a->node);
  if (const auto* d = n.wish.as<drain_command>(); d && members_[d->node].leaving) j.node_failures.away.insert(d->node);
  note_words(j, out);
  for (auto& c : n.held) out.emplace_back(tell_job{j.id, std::move(c)});
  const std::chrono::duration<double, std::milli> took = now - n.was_suspended;
  on_event({j.id, {n.step, moved_event{took.count(), done_text(n.wish)}}}, now, out);
  out.emplace_back(
      log_line{"job " + std::to_string(number_of(j.id)) + ": " + done_text(n.wish) + " at step " + std::to_string(n.step)});
  take_back(j, now, out);
}

// A node fails or leaves while a next plan is prepared. Returns true if only the next plan uses the
// node; the failure is handled here then.
bool cluster_controller::lost_to_successor(job& j, const std::string& peer, const std::string& why, instant now, orders& out) {
  if (!j.next || j.at != phase::running || j.next->at == successor::phase::checking) return false;
  const bool before = has(j.plan.nodes, peer), after = has(j.next->plan.nodes, peer);
  if (j.next->at == successor::phase::swapping && before && !after) {  // its roles are gone in either case
    if (j.next->waiting.erase(peer) > 0 && j.next->waiting.empty()) swap_done(j, now, out);
    return true;
  }
  if (before || !after) return false;
  if (j.next->at == successor::phase::preparing && !j.next->goes_back())
    refuse(j, why, now, out);
  else
    lose(j, peer, why, now, out);
  return true;
}

void cluster_controller::watch_successor(job& j, instant now, orders& out) {
  if (!j.next || (j.next->at == successor::phase::draining && !j.next->live) || now <= j.next->deadline) return;
  if (j.next->at == successor::phase::draining)
    return nothing_is_left(j, "not all nodes reported their state within 10 s", now, out);
  const auto who = j.next->waiting.empty() ? self_ : *j.next->waiting.begin();
  if (j.next->at == successor::phase::swapping)
    return fail(j, who, "node " + who + " did not switch to the new plan within 60 s", now, out);
  refuse(j, who + " did not get ready for the new plan within 60 s", now, out);
}

}  // namespace troupe::control
