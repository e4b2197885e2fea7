#include "runtime/cluster/controller/controller_view.hpp"

#include <algorithm>

#include "runtime/cluster/role_entries.hpp"

namespace troupe::control {
namespace {

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

}  // namespace

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

}  // namespace troupe::control
