// Adds server groups and the roles that serve workers: shards, replicas, the data server.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>
#include <set>

namespace troupe {

// Groups are consecutive workers, so their packets are consecutive too.
void add_groups(plan_draft& draft) {
  auto& plan = draft.plan;
  const auto& t = draft.job.topology;
  const auto each = static_cast<std::uint32_t>(t.workers_per_group);
  for (std::uint32_t g = 0; g < static_cast<std::uint32_t>(t.worker_groups); ++g) {
    worker_group w;
    w.first = g * each;
    w.count = each;
    w.range.first = plan.ranges[w.first].first;
    for (std::uint32_t k = 0; k < each; ++k) w.range.count += plan.ranges[w.first + k].count;
    w.server_group = t.server_groups > 1 ? g : 0;
    plan.groups.push_back(w);
  }
  plan.server_groups = static_cast<std::uint32_t>(t.server_groups);
  plan.servers_per_group = static_cast<std::uint32_t>(draft.shards);
}

namespace {

// The nodes of the workers of server group `g`: one entry per worker, or each node once.
std::vector<std::uint32_t> nodes_of_workers(const plan_draft& draft, std::uint32_t g) {
  const auto& plan = draft.plan;
  const auto first = plan.server_groups > 1 ? plan.groups[g].first : 0;
  const auto count = plan.server_groups > 1 ? plan.groups[g].count : static_cast<std::uint32_t>(draft.workers);
  std::vector<std::uint32_t> nodes;
  std::set<std::uint32_t> listed;
  for (auto w = first; w < first + count; ++w) {
    const auto node = draft.colocated[w];
    const bool again = !listed.insert(node).second;
    if (again && draft.placing.of_shards == reducer_placing::shards::one_a_node) continue;
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

// Shards that are not colocated go to nodes without workers, if there are any.
void add_shards(plan_draft& draft) {
  auto& plan = draft.plan;
  auto hosts = nodes_with(draft.nodes, "server");
  const bool colocated = draft.placing.of_shards != reducer_placing::shards::as_said;
  if (!draft.job.topology.colocated) {
    auto apart = hosts;
    std::set<std::uint32_t> works;
    for (auto w : plan.workers) works.insert(plan[w].node);
    std::erase_if(apart, [&](std::uint32_t n) { return works.contains(n); });
    if (!apart.empty()) hosts = apart;
  }
  for (std::uint32_t g = 0; g < plan.server_groups; ++g) {
    const auto theirs = nodes_of_workers(draft, g);
    for (std::uint32_t s = 0; s < draft.shards; ++s) {
      const auto number = g * static_cast<std::uint32_t>(draft.shards) + s;
      // With one server group per worker group, colocated servers are on the nodes of their group's
      // workers.
      const bool with_group = draft.job.topology.colocated && plan.server_groups > 1;
      const auto node = colocated || with_group ? theirs[s % theirs.size()] : hosts[number % hosts.size()];
      auto& r = draft.add_role(role_kind::shard, "shard" + std::to_string(number), node);
      r.index = s;
      r.group = g;
      plan.shards.push_back(r.id);
    }
  }
}

// The replicas of a shard are on the next nodes with role "server" after its own, each on a
// different node. With fewer nodes than replicas (after node failures) there are fewer replicas.
void add_replicas(plan_draft& draft) {
  auto& plan = draft.plan;
  const auto hosts = nodes_with(draft.nodes, "server");
  const auto copies = std::min<std::size_t>(static_cast<std::size_t>(draft.job.topology.replicas), hosts.size()) - 1;
  if (hosts.empty() || plan.server_groups > 1) return;
  const auto shards = plan.shards;
  for (auto s : shards) {
    const auto home = plan[s].node;
    const auto from = static_cast<std::size_t>(std::upper_bound(hosts.begin(), hosts.end(), home) - hosts.begin());
    std::size_t made = 0;
    for (std::size_t k = 0; k < hosts.size() && made < copies; ++k) {
      const auto node = hosts[(from + k) % hosts.size()];
      if (node == home) continue;
      auto& r = draft.add_role(role_kind::replica, plan[s].name + "/replica" + std::to_string(++made), node);
      r.original = s;
      plan.replicas.push_back(r.id);
    }
  }
}

bool has_data_server(const job_spec& job) { return job.data.how == delivery::server || job.data.how == delivery::seeds; }

// The data server is on the first node with role "data".
void add_data_server(plan_draft& draft) {
  if (has_data_server(draft.job))
    draft.plan.data_server = draft.add_role(role_kind::data_server, "data", nodes_with(draft.nodes, "data").front()).id;
}

void add_readers(plan_draft& draft, std::uint32_t n) {
  for (auto& r : draft.plan.roles)
    if (r.does().reads_examples) r.slots = n;
}

role_id colocated_shard(plan_draft& draft, std::uint32_t node, std::int32_t device) {
  auto& plan = draft.plan;
  for (auto s : plan.shards) {
    const auto named = draft.named_devices.find(s);
    const auto on = named == draft.named_devices.end() ? any_device : static_cast<std::int32_t>(named->second);
    if (plan[s].node == node && on == device) return s;
  }
  auto& r = draft.add_role(role_kind::shard, "shard" + std::to_string(plan.shards.size()), node);
  r.index = plan.servers_per_group++;
  plan.shards.push_back(r.id);
  if (device != any_device) draft.named_devices[r.id] = static_cast<std::uint32_t>(device);
  return r.id;
}

}  // namespace troupe
