// The head's view for people: nodes, jobs and roles as they were last heard of, and what a loss would cost now.
#include <algorithm>

#include "actors/control/head.hpp"
#include "actors/control/role_rows.hpp"

namespace troupe::control {

// Whoever goes back goes to the newest checkpoint, or to what the job began with. So does everybody when the coordinator's daemon is killed. What
// other nodes take with them is made again with the step that was under way, which nobody has been told of.
std::uint64_t head::at_stake(const job& j) const {
  const auto back = std::max(j.kept_step.value_or(0), j.plan.continued ? j.plan.from : 0);
  return j.view.step > back ? j.view.step - back : 0;
}

std::optional<std::uint64_t> head::at_stake(const job& j, const std::string& node) const {
  if (j.at != phase::running || !has_part(j, node)) return std::nullopt;
  return node == self_ || j.plan.costly.contains(node) ? at_stake(j) : 0;
}

repl_node head::row_of(const std::string& name, instant now) const {
  const auto& m = members_.at(name);
  repl_node row;
  row.name = name;
  row.data_address = m.said.data_address;
  row.state = m.up ? (m.leaving ? "leaving" : m.hung ? "hung" : "up") : (m.since == instant{} ? "absent" : "lost");
  row.incarnation = m.said.incarnation;
  row.tcp_in = m.last.tcp_in;
  row.tcp_out = m.last.tcp_out;
  for (const auto& l : m.last.links) row.links.push_back({l.peer, l.by, l.why_not, l.bytes_in, l.bytes_out, l.lent_in});
  row.seconds = m.since == instant{} ? 0 : seconds_of(now - m.since);
  row.lives = m.lives;
  row.losses = m.losses;
  const auto* j = find(active_);
  if (!j || j->at != phase::running) return row;
  if (m.up && !m.hung) row.at_stake = at_stake(*j, name);
  const auto number = "job " + std::to_string(j->view.id);
  if (const auto s = j->losses.suspected(name))
    row.note = s->by + " cannot reach it: lost to " + number + " in " +
               std::to_string(std::chrono::ceil<std::chrono::seconds>(s->until - now).count()) + " s";
  else if (j->losses.apart.contains(name))
    row.note = number + " goes on without it: others cannot reach it";
  else if (j->losses.away.contains(name))
    row.note = number + " goes on without it";
  else if (j->words.without.contains(name))
    row.note = "drained: " + number + " does not use it before `add-node " + name + "`";
  return row;
}

repl_job head::row_of(const job& j, instant now) const {
  auto row = j.view;
  switch (j.at) {
    case phase::checking: row.state = "checking"; break;
    case phase::receiving: row.state = "receiving"; break;
    case phase::queued: row.state = "queued"; break;
    case phase::gathering: row.state = "gathering"; break;
    case phase::preparing: row.state = "preparing"; break;
    case phase::running: row.state = j.stopping ? "stopping" : j.paused ? "paused" : "running"; break;
    case phase::ending: row.state = "ending"; break;
    case phase::over: break;
  }
  row.losses = j.losses.count();
  row.replicas = j.plan.replicas;
  row.kept = j.kept_step;
  if (row.kept) row.kept_seconds = seconds_of(now - j.kept_at);
  if (j.at == phase::running) row.at_stake = at_stake(j);  // the coordinator's is among the nodes of every job
  return row;
}

void head::fill(repl_view& v, instant now) const {
  for (const auto& n : cluster_.nodes) {
    auto row = row_of(n.name, now);
    row.address = n.address;
    v.nodes.push_back(std::move(row));
    const auto& m = members_.at(n.name);
    if (n.name == self_ || !m.up) continue;
    for (const auto& r : m.last.roles) v.roles.push_back({n.name, published_in(r)});
  }
  for (const auto& [id, j] : jobs_) v.jobs.push_back(row_of(j, now));
}

}  // namespace troupe::control
