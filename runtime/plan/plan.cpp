// Placement. Every data-parallel worker is a loader, the stages of layers on the worker's node, and
// the worker sync of the mode, all on one node. Placed layers have stages and worker syncs on their
// own nodes. Parameters of the former are cut evenly over the shards of a server group; every
// server group has all parameters. Pure and deterministic: every node computes the same plan.
#include "runtime/plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "ops/device_descriptors.hpp"
#include "ops/tree/packet_tree.hpp"
#include "runtime/plan/message_sizes.hpp"
#include "runtime/plan/plan_draft.hpp"
#include "runtime/plan/stage_groups.hpp"

namespace troupe {
namespace {

// Adds roles and edges in the order of their numbers.
void add_everything(plan_draft& draft, const plan_options& options) {
  draft.groups = stage_groups(draft.graph, options.own_stage, draft.where,
                              {draft.job.pipeline.fuse == "auto", draft.job.pipeline.fuse_layers});
  for (const auto& a : draft.where) draft.stage_of.emplace_back(a.parts.size(), no_role);
  draft.add_role(role_kind::coordinator, "coordinator", nodes_with(draft.nodes, "coordinator").front());
  for (std::uint32_t w = 0; w < draft.workers; ++w) add_worker(draft, w, draft.colocated[w]);
  add_hosts(draft);
  add_groups(draft);
  add_all_edges(draft);
  check_own_stages(draft, options.own_stage);
  add_shards(draft);
  add_data_server(draft);
  add_readers(draft, options.readers);
  cut_parameters(draft, options.max_message);
  for (const auto& kind : role_table())
    if (kind.draw) kind.draw(draft, options);
  draft.within(draft.plan.roles.size(), max_roles, "roles", workers_at(draft.job));  // a plugin's reducer adds roles too
  deal_devices(draft);
}

// Assigns packets to workers and layers to nodes.
void assign(plan_draft& draft) {
  auto& plan = draft.plan;
  const auto nodes = draft.worker_nodes.size();
  for (std::size_t w = 0; w < draft.workers; ++w)
    draft.colocated.push_back(
        draft.worker_nodes[draft.placing.workers_in_runs ? w * std::min(nodes, draft.workers) / draft.workers : w % nodes]);
  assign_worker_devices(draft);
  plan.ranges = worker_ranges(draft.job, worker_speeds(draft), plan.packets, draft.errors);
  if (!draft.errors.empty()) return;
  check_shards(draft);
  draft.where = assign_layers(draft.job, draft.graph, draft.nodes, draft.colocated, plan.ranges, draft.errors);
  plan.balances = draft.workers > 1 && std::any_of(draft.job.layers.begin(), draft.job.layers.end(),
                                                   [](const layer_spec& l) { return l.auto_fraction; });
  plan.placed = std::any_of(draft.where.begin(), draft.where.end(), [](const assignment& a) { return a.placed; });
  if (plan.placed) check_placed(draft);
  warm_up(draft);
}

expected<job_plan, diagnostics> drawn(plan_draft& draft, const plan_options& options) {
  auto& plan = draft.plan;
  auto& errors = draft.errors;
  const auto& job = draft.job;
  const auto& graph = draft.graph;
  for (const auto& n : draft.nodes) plan.nodes.push_back({n.name, n.devices});
  check_topology(draft);
  if (!errors.empty()) return unexpected(std::move(errors));
  check_parts(draft);
  plan.packets = static_cast<std::uint32_t>(job.pipeline.packets);
  plan.sub_solvers = static_cast<std::uint32_t>(job.pipeline.sub_solvers);
  plan.rule_states = options.rule_states;
  plan.fuse_layers = job.pipeline.fuse_layers;
  assign(draft);
  if (!errors.empty()) return unexpected(std::move(errors));
  for (auto& wrong : cannot_recompute(graph, options.own_stage, plan.rule)) errors.push_back(std::move(wrong));
  for (auto& wrong : cannot_gather(graph, plan.rule)) errors.push_back(std::move(wrong));
  add_everything(draft, options);
  check_memory(draft);
  for (auto& wrong : too_large_to_send(plan, graph, job, options.max_message)) errors.push_back(std::move(wrong));
  if (!errors.empty()) return unexpected(std::move(errors));
  return std::move(plan);
}

}  // namespace

expected<job_plan, diagnostics> make_plan(const job_spec& job, const model_graph& graph, const std::vector<node_spec>& nodes,
                                          const plan_options& options) {
  plan_draft draft{job, graph, nodes, static_cast<bool>(options.lay_out_reducers), options.placing};
  try {
    return drawn(draft, options);
  } catch (const plan_overrun& e) {
    return unexpected(diagnostics{e.what});
  }
}

std::vector<role_id> job_plan::weights_to(const param_block& b, const worker_group& g) const {
  std::vector<role_id> list;
  for (auto w : b.takers) list.push_back(workers[w]);
  if (!list.empty()) return list;
  for (auto w = g.first; w < g.first + g.count; ++w)
    if (push_via.empty() || push_via[w] == no_role) list.push_back(workers[w]);
  if (reducers_of.empty()) return list;
  const auto workers_listed = static_cast<std::ptrdiff_t>(list.size());
  for (auto w = g.first; w < g.first + g.count; ++w)
    for (auto r : reducers_of[w])
      if (above(r, b) == b.shard) list.push_back(r);
  std::sort(list.begin() + workers_listed, list.end());  // in the order of `reducers`
  return list;
}

std::string job_plan::place_of(const role_plan& r) const {
  const auto& n = nodes[r.node];
  return different_devices(n.devices).size() > 1 ? n.name + "/" + n.devices[r.device] : n.name;
}

std::vector<role_id> job_plan::below(role_id reducer, const param_block& b) const {
  auto list = below(reducer);
  std::erase_if(list, [&](role_id r) { return (*this)[r].does().adds == role_sums::of_others && above(r, b) != reducer; });
  return list;
}

std::uint32_t job_plan::sums_up(role_id reducer) const {
  const auto range = covered(reducer);
  return ring ? 1 : static_cast<std::uint32_t>(cover(range.first, range.count, packets).size());
}

packet_range job_plan::covered(role_id reducer) const {
  if (ring) return {0, packets};
  packet_range all;
  for (auto r : below(reducer)) {
    const auto part = (*this)[r].does().adds == role_sums::of_others ? covered(r) : range_of((*this)[r].worker);
    if (part.count == 0) continue;
    const auto end = std::max(all.count == 0 ? 0 : all.first + all.count, part.first + part.count);
    all.first = all.count == 0 ? part.first : std::min(all.first, part.first);
    all.count = end - all.first;
  }
  return all;
}

}  // namespace troupe
