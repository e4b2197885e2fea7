// Checks for user mistakes that can only be found when roles are assigned to nodes.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

void need_role(plan_draft& draft, const char* role) {
  if (nodes_with(draft.nodes, role).empty())
    draft.error(draft.nodes.empty() ? draft.job.at : draft.nodes.front().at, std::string("no node has the role \"") + role + "\"");
}

std::int64_t positive(plan_draft& draft, const char* key, std::int64_t value) {
  if (value >= 1 && value <= 65535) return value;
  draft.error(position_of(draft.job.topology.key_at, key, draft.job.topology.at),
              std::string(key) + " must be between 1 and 65535, not " + std::to_string(value));
  return 1;
}

// The number of shards per server group: from the file, or as the job's reducer requires.
std::uint64_t shards_of_a_group(plan_draft& draft) {
  const auto& t = draft.job.topology;
  const auto said = static_cast<std::uint64_t>(positive(draft, "servers_per_group", t.servers_per_group));
  if (draft.placing.of_shards == reducer_placing::shards::as_said) return said;
  if (t.servers_per_group != 1)
    draft.error(position_of(t.key_at, "servers_per_group", t.at),
                "reducer \"" + draft.job.train.reducer + "\" determines the number of shards: remove servers_per_group");
  const auto served =
      t.server_groups > 1 ? static_cast<std::uint64_t>(std::max<std::int64_t>(t.workers_per_group, 1)) : draft.workers;
  if (draft.placing.of_shards == reducer_placing::shards::colocated_with_workers) return served;
  return std::min<std::uint64_t>(served, std::max<std::size_t>(draft.worker_nodes.size(), 1));
}

}  // namespace

void check_topology(plan_draft& draft) {
  for (auto role : {"coordinator", "worker", "server"}) need_role(draft, role);
  if (has_data_server(draft.job)) need_role(draft, "data");
  const auto& t = draft.job.topology;
  draft.workers = static_cast<std::uint64_t>(positive(draft, "worker_groups", t.worker_groups) *
                                             positive(draft, "workers_per_group", t.workers_per_group));
  draft.worker_nodes = nodes_with(draft.nodes, "worker");
  draft.shards = shards_of_a_group(draft);
  if (draft.shards * static_cast<std::uint64_t>(positive(draft, "server_groups", t.server_groups)) > 65535)
    draft.error(t.at, "more than 65535 parameter shards");
  if (t.server_groups != 1 && t.server_groups != t.worker_groups)
    draft.error(position_of(t.key_at, "server_groups", t.at),
                "server_groups must be 1 (all worker groups share it) or equal worker_groups (one each): there are " +
                    std::to_string(t.worker_groups) + " worker groups and " + std::to_string(t.server_groups) + " server groups");
  if (t.server_groups > 1 && t.replicas > 1)
    draft.error(position_of(t.key_at, "replicas", t.at),
                "replicas must be 1 if server_groups is more than 1: each server group is already a copy");
  const auto& p = draft.job.pipeline;
  const auto packets_at = position_of(p.key_at, "packets", p.at);
  if (p.packets < 1 || p.packets > 65535)
    draft.error(packets_at, "packets must be between 1 and 65535, not " + std::to_string(p.packets));
  else if (static_cast<std::uint64_t>(p.packets) < draft.workers)
    draft.error(packets_at, "fewer packets than workers: " + std::to_string(p.packets) + " for " + std::to_string(draft.workers) +
                                "; every worker needs at least one packet of a step");
  if (p.sub_solvers < 1 || p.sub_solvers > 65535)
    draft.error(position_of(p.key_at, "sub_solvers", p.at),
                "sub_solvers must be between 1 and 65535, not " + std::to_string(p.sub_solvers));
}

source_position workers_at(const job_spec& job) {
  const auto& t = job.topology;
  return position_of(t.key_at, t.workers_per_group >= t.worker_groups ? "workers_per_group" : "worker_groups", t.at);
}

void plan_draft::within(std::size_t count, std::size_t most, const char* things, const source_position& at) const {
  if (count <= most) return;
  throw plan_overrun{{at, "the plan would have more than " + with_commas(most) + " " + things + " (the maximum) for " +
                              with_commas(workers) + " workers, " + with_commas(graph.layers.size()) + " layers, " +
                              with_commas(shards) + " shards of a server group"}};
}

// Checked before any part is made.
void check_parts(const plan_draft& draft) {
  draft.within(draft.workers * draft.graph.layers.size(), max_parts, "parts of layers (workers x layers)", workers_at(draft.job));
}

void check_shards(plan_draft& draft) {
  if (draft.placing.of_shards == reducer_placing::shards::as_said) return;
  const auto may = nodes_with(draft.nodes, "server");  // in order
  const std::set<std::uint32_t> workers(draft.colocated.begin(), draft.colocated.end());
  for (auto n : workers)
    if (!std::binary_search(may.begin(), may.end(), n))
      draft.error(draft.nodes[n].at, "reducer \"" + draft.job.train.reducer +
                                         "\" needs shards on the nodes of workers, but node '" + draft.nodes[n].name +
                                         "' does not have the role \"server\"");
}

void check_placed(plan_draft& draft) {
  const auto& t = draft.job.topology;
  if (draft.workers > max_placing_workers)
    draft.error(workers_at(draft.job), "layers that are placed or split by feature support at most " +
                                           with_commas(max_placing_workers) + " workers, not " + with_commas(draft.workers));
  if (t.worker_groups > 1)
    draft.error(position_of(t.key_at, "worker_groups", t.at),
                "layers that are placed or split by feature support one worker group, not " + std::to_string(t.worker_groups));
  if (draft.lays_out)
    draft.error(position_of(draft.job.train.key_at, "exchange.reducer", draft.job.train.at),
                "reducer \"" + draft.job.train.reducer +
                    "\" needs every layer on the node of every worker; use \"server\" with placed layers");
}

// Actor-based layers compute on whole, unencoded tensors.
void check_own_stages(plan_draft& draft, const std::set<std::string>& own) {
  for (const auto& e : draft.plan.edges) {
    if (e.region.whole() && e.need.whole() && !e.addend && e.wire == wire_format::as_is) continue;
    for (auto r : {e.from, e.to})
      for (auto l : draft.plan[r].layers)
        if (own.count(draft.graph.layers[l].type))
          return draft.error(draft.graph.layers[l].spec->at,
                             "layer " + in_quotes(draft.graph.layers[l].name) +
                                 " is actor-based: neither it nor its neighbours can be split by "
                                 "feature or along their input, and tensors between them need wire = \"fp32\"");
  }
}

void check_memory(plan_draft& draft) {
  if (std::all_of(draft.nodes.begin(), draft.nodes.end(), [](const node_spec& n) { return n.memory_limit <= 0; })) return;
  const auto costs = cost_of(draft.plan, draft.graph, draft.job);
  for (const auto& n : draft.nodes) {
    const auto i = costs.memory.find(n.name);
    if (n.memory_limit <= 0 || i == costs.memory.end() || i->second <= static_cast<double>(n.memory_limit)) continue;
    draft.error(n.at, "over budget: node '" + n.name + "' would hold about " +
                          std::to_string(static_cast<std::int64_t>(i->second)) + " bytes of this job, but its memory_limit is " +
                          std::to_string(n.memory_limit));
  }
}

}  // namespace troupe
