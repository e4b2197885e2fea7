#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/pieces.hpp"

#include <algorithm>

#include "runtime/job/plugin_abi.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto gather_timeout = 8s;
constexpr auto gather_again_timeout = 30s;  // after a restart: nodes reconnect to this daemon
constexpr auto prepare_timeout = 60s;
constexpr auto end_timeout = 5s;
constexpr auto store_timeout = 60s;

std::string joined_names(const std::set<std::string>& names) {
  std::string text;
  for (const auto& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

}  // namespace

cluster_controller::cluster_controller(const cluster_spec& cluster, std::string self, std::uint16_t tag)
    : cluster_(cluster), self_(std::move(self)), numbers_(tag) {
  for (const auto& n : cluster_.nodes) members_[n.name];
}

void cluster_controller::on(const std::string& from, const message& m, instant now, orders& out) {
  if (const auto why = no_right(from, m); !why.empty()) {
    if (auto line = trust_.dropped.note(from, m, why)) out.push_back(log_line{std::move(*line)});
    return;
  }
  std::visit([&](const auto& x) { take(from, x, now, out); }, m);
}

cluster_controller::job* cluster_controller::find(std::uint32_t id) {
  const auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}
const cluster_controller::job* cluster_controller::find(std::uint32_t id) const {
  return const_cast<cluster_controller*>(this)->find(id);
}

// --- members

void cluster_controller::take(const std::string& from, const join& m, instant now, orders& out) {
  const auto at = members_.find(from);
  joined answer;
  if (at == members_.end()) answer.refusal = "the cluster file of " + self_ + " has no node named " + from;
  if (m.protocol != protocol)
    answer.refusal = from + " uses another version of the control protocol; run the same Troupe on all nodes";
  if (m.abi != abi_version)
    answer.refusal = from + " runs another build of Troupe (ABI " + std::to_string(m.abi) + "); run the same build on all nodes";
  if (!answer.refusal.empty()) {
    out.push_back(to_peer{from, answer});
    out.push_back(log_line{"refused " + from + ": " + answer.refusal});
    return;
  }
  auto* j = find(active_);
  if (!rejoins(j, from, m, out)) return;
  auto& who = at->second;
  if (who.said.incarnation != m.incarnation || who.lives == 0) ++who.lives;
  who = {true, false, false, m, {}, now, {}, who.lives, who.node_failures};
  out.push_back(log_line{"node " + from + " has joined, data plane at " + m.data_address});
  if (j && j->at == phase::gathering) gather(*j, now, out);
  if (!j || j->at != phase::running) return;
  j->node_failures.not_now.erase(from);
  j->node_failures.apart.erase(from);
  take_back(*j, now, out);
}

void cluster_controller::on_peer_down(const std::string& peer, const std::string& reason, instant now, orders& out) {
  slow_.erase(peer);
  trust_.greeted.erase(peer);
  forget_submissions_of(peer, now, out);
  for (auto& [id, j] : jobs_) {
    j.followers.erase(peer);
    j.notified.erase(peer);
    if (j.submitter == peer) j.submitter.clear();
    j.node_failures.clear_of(peer);
  }
  const auto at = members_.find(peer);
  if (at == members_.end()) return;
  if (std::exchange(at->second.up, false)) {
    at->second.since = now;
    if (!at->second.hung) ++at->second.node_failures;  // a hung node has been counted already
    out.push_back(log_line{"node " + peer + " is lost: " + reason});
  }
  auto* j = find(active_);
  if (j && lost_to_successor(*j, peer, "node " + peer + " is lost: " + reason, now, out)) return;
  const auto concerned = j && std::count(j->plan.nodes.begin(), j->plan.nodes.end(), peer) > 0;
  if (!concerned) return;
  if (j->at == phase::preparing) runs(*j, now, out);
  if (j->at == phase::running && !comes_back(*j, peer, now))
    return lose(*j, peer, "node " + peer + " is lost: " + reason, now, out);
  if (j->at == phase::ending && j->waiting.erase(peer) > 0) finish(*j, now, out);
}

void cluster_controller::take(const std::string& from, const report& m, instant now, orders&) {
  const auto at = members_.find(from);
  if (at == members_.end()) return;
  at->second.last = m;
  at->second.last.gpus = plausible(m.gpus);
  at->second.reported = now;
}

void cluster_controller::take(const std::string& from, const leaving&, instant now, orders& out) {
  const auto at = members_.find(from);
  if (at == members_.end()) return;
  at->second.leaving = true;
  out.push_back(log_line{"node " + from + " shuts down"});
  auto* j = find(active_);
  if (j && lost_to_successor(*j, from, "node " + from + " shuts down", now, out)) return;
  if (!j || std::count(j->plan.nodes.begin(), j->plan.nodes.end(), from) == 0) return;
  if (j->at == phase::running) {
    if (!take_leave(*j, from, now, out)) preempt(*j, from + " shuts down", out);
  } else if (j->at == phase::preparing) {
    if (!failure_book(j->plan.max_failures).survives_any() || from == self_)
      return fail(*j, from, "node " + from + " shuts down", now, out);
    runs(*j, now, out);
    lose(*j, from, "node " + from + " shuts down", now, out);
  }
}

// --- one job at a time

void cluster_controller::next(instant now, orders& out) {
  while (!draining_ && active_ == 0 && !queue_.empty()) {
    const auto id = queue_.front();
    queue_.pop_front();
    auto* j = find(id);
    if (!j || j->at != phase::queued) continue;
    active_ = id;
    j->at = phase::gathering;
    j->deadline = now + (j->restored ? gather_again_timeout : gather_timeout);
    gather(*j, now, out);
  }
}

void cluster_controller::gather(job& j, instant now, orders& out) {
  prepare p{j.id, j.what, j.plan.plan_hash, {}, j.plan.continued, j.plan.from};
  std::string numerics, whose;
  const bool changed = begins_changed(j);
  for (const auto& n : j.plan.nodes) {
    const auto& m = members_[n];
    if (changed && j.changes.without.contains(n)) continue;
    if (!m.usable()) return;
    p.places.push_back({n, m.said.data_address, m.said.incarnation});
    if (j.plan.deterministic && !whose.empty() && numerics != m.said.numerics)
      return fail(j, n,
                  "nodes " + whose + " (" + numerics + ") and " + n + " (" + m.said.numerics +
                      ") do not compute the same numbers; deterministic = false allows it",
                  now, out);
    numerics = m.said.numerics;
    whose = n;
  }
  if (changed) {
    runs(j, now, out);
    return begin_recovery(j, "coordinator " + self_ + " restarted and keeps the changes made by set, mode, move, drain and pause",
                          false, {}, now, out);
  }
  j.at = phase::preparing;
  j.deadline = now + prepare_timeout + time_for(j.given.bytes);
  j.waiting = {j.plan.nodes.begin(), j.plan.nodes.end()};
  for (const auto& n : j.plan.nodes) out.push_back(to_peer{n, p});
}

void cluster_controller::take(const std::string& from, const prepared& m, instant now, orders& out) {
  auto* j = find(m.job);
  if (!j || j->at != phase::preparing || !j->waiting.contains(from)) return;
  if (!m.error.empty()) {
    if (unreachable(*j, m.peer, from, m.error, now, out)) return;
    return fail(*j, from, "node " + from + ": " + m.error, now, out);
  }
  j->waiting.erase(from);
  if (!j->waiting.empty()) return;
  runs(*j, now, out);
  out.push_back(begin_job{j->id});
  out.push_back(log_line{"job " + std::to_string(number_of(j->id)) + " (" + j->plan.name + ") runs"});
}

void cluster_controller::runs(job& j, instant now, orders& out) {
  j.at = phase::running;
  j.waiting.clear();
  j.progress_at = j.begun = now;
  j.node_failures = failure_book(j.plan.max_failures);
  j.tasks = task_watch();
  out.push_back(journal_line{journal_begun(number_of(j.id))});
}

void cluster_controller::take(const std::string& from, const trouble& m, instant now, orders& out) {
  auto* j = find(m.job);
  if (!j || (j->at != phase::preparing && j->at != phase::running)) return;
  if (((j->next && j->next->goes_back()) || j->back) && m.node != from) return;  // from roles of the former plan
  if (unreachable(*j, m.node, from, m.message, now, out)) return;
  const auto text = m.node == from ? from + ": " + m.message : m.node + " is lost: " + from + " " + m.message;
  const bool role = m.node == from && m.role && j->at == phase::running;
  if (role && restart_role(*j, from, *m.role, "node " + text, now, out)) return;
  fail(*j, m.node, "node " + text, now, out);
}

void cluster_controller::fail(job& j, const std::string& where, const std::string& text, instant now, orders& out) {
  if (j.last) return;
  j.last = job_event{j.id, {j.view.step, error_event{text, where}}};
  std::erase(queue_, j.id);
  end(j, now, out);
}

void cluster_controller::end(job& j, instant now, orders& out) {
  const bool everywhere = j.at == phase::preparing || j.at == phase::running;
  std::set<std::string> nodes(j.plan.nodes.begin(), j.plan.nodes.end());
  if (j.next) nodes.insert(j.next->plan.nodes.begin(), j.next->plan.nodes.end());
  j.next.reset();
  j.back.reset();
  j.at = phase::ending;
  j.deadline = now + end_timeout;
  j.waiting.clear();
  end_job word{j.id};
  if (const auto* bad = j.last ? j.last->event.as<error_event>() : nullptr) {
    word.error = bad->message;
    word.step = j.last->event.step;
    word.where = bad->where;
  }
  if (everywhere)
    for (const auto& n : nodes) {
      if (!members_[n].up) continue;
      j.waiting.insert(n);
      out.push_back(to_peer{n, word});
    }
  finish(j, now, out);
}

void cluster_controller::take(const std::string& from, const ended& m, instant now, orders& out) {
  if (members_[from].hung) return came_to_itself(from, now, out);
  auto* j = find(m.job);
  if (!j || j->at != phase::ending || j->waiting.erase(from) == 0) return;
  j->tcp_bytes += m.tcp_bytes;
  if (!m.post_mortem.empty()) j->post_mortems.push_back(from + ":" + m.post_mortem);
  finish(*j, now, out);
}

// Sends the last event, once every node has ended the job and everything is stored.
void cluster_controller::finish(job& j, instant now, orders& out) {
  if (j.at != phase::ending || !j.waiting.empty() || j.stores > 0) return;
  release_held(j, now, out);
  j.at = phase::over;
  auto& e = *j.last;
  if (auto* d = e.event.as<done_event>()) {
    d->tcp_bytes = j.tcp_bytes;
    if (!j.unsaved.empty()) d->alerts.push_back(j.unsaved);
    if (j.stores_late) d->alerts.emplace_back("the weights were not written in time");
    for (const auto& s : j.results) {
      if (s.what != kept_kind::weights) continue;
      d->weights_sha256 = j.view.weights_sha256 = s.sha256;
      j.weights = s.path;
      if (!s.error.empty()) d->alerts.push_back("weights not saved: " + s.error);
    }
    j.view.state = d->stopped() ? "stopped" : "done";
  } else if (auto* p = e.event.as<preempted_event>()) {
    if (!j.unsaved.empty()) p->alerts.push_back(j.unsaved);
    if (draining_) p->goes_on = "when " + self_ + " runs again";
    j.view.state = "preempted";
  } else if (auto* bad = e.event.as<error_event>()) {
    j.view.state = "failed";
    j.view.message = bad->message;
    std::sort(j.post_mortems.begin(), j.post_mortems.end());  // the nodes answer in any order
    std::string folders;
    for (const auto& f : j.post_mortems) folders += (folders.empty() ? "" : ", ") + f;
    bad->post_mortem = folders;
  }
  note_lost(j);
  // The next incarnation of this daemon restores an unfinished job.
  const bool unfinished = draining_ && e.event.is<preempted_event>();
  if (!unfinished) note_over(j, out);
  if (!unfinished && j.given.kind != given_file::nothing) out.push_back(drop_given{j.id});
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + " (" + j.view.name + ") is over: " + j.view.state +
                         (j.view.message.empty() ? "" : ", " + j.view.message)});
  say(j, e, out);
  j.followers.clear();
  j.what = {};  // no further plan is made of it
  if (active_ == j.id) active_ = 0;
  next(now, out);
}

// Records why a running job that was stopped by draining was not stored.
void cluster_controller::note_lost(const job& j) {
  if (!draining_ || !j.stopping) return;
  const auto& e = *j.last;
  std::string why;
  if (const auto* bad = e.event.as<error_event>()) why = bad->message;
  if (const auto* d = e.event.as<done_event>(); d && !d->alerts.empty()) why = d->alerts.back();
  if (const auto* p = e.event.as<preempted_event>(); p && !p->alerts.empty()) why = p->alerts.back();
  if (!why.empty()) lost_by_draining_ = "job " + std::to_string(number_of(j.id)) + ": " + why;
}

void cluster_controller::forget_old() {
  const auto is_over = [](const auto& j) { return j.second.at == phase::over; };
  auto over = static_cast<std::size_t>(std::count_if(jobs_.begin(), jobs_.end(), is_over));
  for (auto at = jobs_.begin(); over > finished_kept && at != jobs_.end();) {
    const bool old = is_over(*at) && at->first != active_ && at->first != numbers_.last();
    at = old ? jobs_.erase(at) : std::next(at);
    over -= old ? 1 : 0;
  }
}

// --- time

void cluster_controller::on_tick(instant now, orders& out) {
  if (was_suspended(now)) clock_.woke = now, clock_.slept = now - clock_.ticked;
  clock_.ticked = now;
  forget_old();
  refuse_late_pieces(now, out);
  refuse_late_checks(now, out);
  auto* j = find(active_);
  if (!j) return;
  if (j->at == phase::running) {
    if (j->back) return watch_rejoining(*j, now, out);
    watch_successor(*j, now, out);
    if (j->at == phase::running) watch_suspects(*j, now, out);
    if (j->at == phase::running) watch_progress(*j, now, out);
    return;
  }
  if (now <= j->deadline) return;
  if (j->at == phase::gathering) {
    std::set<std::string> missing;
    for (const auto& n : j->plan.nodes)
      if (!members_[n].usable() && !(begins_changed(*j) && j->changes.without.contains(n))) missing.insert(n);
    const auto text = "no daemon answers as " + joined_names(missing) + ", which the plan uses (waited " +
                      std::to_string(j->restored ? gather_again_timeout.count() : gather_timeout.count()) + " s)";
    if (!failure_book(j->plan.max_failures).survives_any()) return fail(*j, *missing.begin(), text, now, out);
    runs(*j, now, out);
    return lose(*j, *missing.begin(), text, now, out);
  }
  if (j->at == phase::preparing) {
    const auto text = joined_names(j->waiting) + " did not get ready within 60 s";
    return fail(*j, *j->waiting.begin(), text, now, out);
  }
  // ending: does not wait for nodes that have not answered; stores have another `store_timeout`.
  j->waiting.clear();
  if (j->stores > 0 && now > j->deadline + store_timeout) {
    j->stores = 0;
    j->stores_late = true;
  }
  finish(*j, now, out);
}

}  // namespace troupe::control
