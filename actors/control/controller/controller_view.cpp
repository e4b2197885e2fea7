// cluster_controller: the view that the REPL shows: nodes, jobs and roles as last reported, and the
// steps at risk if a node failed now.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/role_entries.hpp"

namespace troupe::control {

// Steps since the newest checkpoint, or since the file that the job started from. All of them are
// repeated if the coordinator's daemon is killed, or if state is lost that no other node has.
// Otherwise only the step under way is repeated, which has not been reported.
std::uint64_t cluster_controller::steps_at_risk(const job& j) const {
  const auto back = std::max(j.kept_step.value_or(0), j.plan.continued ? j.plan.from : 0);
  return j.view.step > back ? j.view.step - back : 0;
}

std::optional<std::uint64_t> cluster_controller::steps_at_risk(const job& j, const std::string& node) const {
  if (j.at != phase::running || !has_part(j, node)) return std::nullopt;
  return node == self_ || j.plan.costly.contains(node) ? steps_at_risk(j) : 0;
}

repl_node cluster_controller::entry_of(const std::string& name, instant now) const {
  const auto& m = members_.at(name);
  repl_node entry;
  entry.name = name;
  entry.data_address = m.said.data_address;
  entry.state = m.up ? (m.leaving ? "leaving" : m.hung ? "hung" : "up") : (m.since == instant{} ? "absent" : "lost");
  entry.incarnation = m.said.incarnation;
  entry.tcp_in = m.last.tcp_in;
  entry.tcp_out = m.last.tcp_out;
  for (const auto& l : m.last.links) entry.links.push_back({l.peer, l.by, l.why_not, l.bytes_in, l.bytes_out, l.shared_in});
  if (m.up) entry.gpus = m.last.gpus;
  if (m.up) entry.memory = m.last.memory;
  entry.seconds = m.since == instant{} ? 0 : seconds_of(now - m.since);
  entry.lives = m.lives;
  entry.node_failures = m.node_failures;
  const auto* j = find(active_);
  if (!j || j->at != phase::running) return entry;
  if (m.up && !m.hung) entry.steps_at_risk = steps_at_risk(*j, name);
  const auto number = "job " + std::to_string(j->view.id);
  if (const auto s = j->node_failures.suspected(name))
    entry.note = s->by + " cannot reach it: counts as failed for " + number + " in " +
                 std::to_string(std::chrono::ceil<std::chrono::seconds>(s->until - now).count()) + " s";
  else if (j->node_failures.apart.contains(name))
    entry.note = number + " continues without it: other nodes cannot reach it";
  else if (j->node_failures.away.contains(name))
    entry.note = number + " continues without it";
  else if (j->changes.without.contains(name))
    entry.note = "drained: " + number + " does not use it until `add-node " + name + "`";
  return entry;
}

repl_job cluster_controller::entry_of(const job& j, instant now) const {
  auto entry = j.view;
  switch (j.at) {
    case phase::checking: entry.state = "checking"; break;
    case phase::receiving: entry.state = "receiving"; break;
    case phase::queued: entry.state = "queued"; break;
    case phase::gathering: entry.state = "gathering"; break;
    case phase::preparing: entry.state = "preparing"; break;
    case phase::running: entry.state = j.stopping ? "stopping" : j.paused ? "paused" : "running"; break;
    case phase::ending: entry.state = "ending"; break;
    case phase::over: break;
  }
  entry.node_failures = j.node_failures.count();
  entry.replicas = j.plan.replicas;
  entry.kept = j.kept_step;
  if (entry.kept) entry.kept_seconds = seconds_of(now - j.kept_at);
  if (j.at == phase::running) entry.steps_at_risk = steps_at_risk(j);  // the coordinator's node is part of every job
  return entry;
}

void cluster_controller::fill(repl_view& v, instant now) const {
  for (const auto& n : cluster_.nodes) {
    auto entry = entry_of(n.name, now);
    entry.address = n.address;
    v.nodes.push_back(std::move(entry));
    const auto& m = members_.at(n.name);
    if (n.name == self_ || !m.up) continue;
    const auto unheard = seconds_of(now - std::max(m.reported, m.since));
    v.nodes.back().unheard_seconds = unheard;
    for (const auto& r : m.last.roles) {
      v.roles.push_back({n.name, published_in(r)});
      v.roles.back().what.age_seconds += unheard;
    }
  }
  for (const auto& [id, j] : jobs_) v.jobs.push_back(entry_of(j, now));
}

}  // namespace troupe::control
