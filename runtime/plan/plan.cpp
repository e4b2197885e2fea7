// Placement. Every data-parallel worker is a loader, the stages of layers on the worker's node, and
// the worker sync of the mode, all on one node. Placed layers have stages and worker syncs on their
// own nodes. Parameters of the former are cut evenly over the shards of a server group; every
// server group has all parameters. Pure and deterministic: every node computes the same plan.
#include "runtime/plan/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/device_descriptors.hpp"
#include "ops/tree/packet_tree.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/model/maths_steps.hpp"
#include "runtime/plan/message_sizes.hpp"
#include "runtime/plan/partition.hpp"
#include "runtime/plan/plan_draft.hpp"
#include "runtime/plan/warm_up.hpp"

namespace troupe {
namespace {

// Groups layers into stages.

// Which layers with the same placement share a stage: as many as possible (`all`), those that are
// computed as one (`steps`, model/maths_steps.hpp), or none.
struct grouping {
  bool all = false, steps = true;
};

class fuser {
 public:
  fuser(const model_graph& g, const std::set<std::string>& own_stage, const std::vector<assignment>& where)
      : g_(g), own_(own_stage), where_(where) {}

  std::vector<std::vector<std::uint32_t>> groups(grouping how) {
    std::vector<std::vector<std::uint32_t>> out;
    std::shared_ptr<const layer> maths;  // of the last run of layers that are computed as one, starting with `first`
    const graph_layer* first = nullptr;
    for (const auto& l : g_.layers) {
      const bool wanted = !out.empty() && awaited(out.back());
      bool joins = !out.empty() && (how.all || how.steps || wanted) && !alone(l) && !alone(g_.layers[out.back().back()]) &&
                   lies_as(l, out.back()) && keeps_order(l, out.back().front());
      auto both = joins && how.steps ? absorbed(g_, *first, g_.layers[out.back().back()], *maths, l) : nullptr;
      joins = joins && (both || ((how.all || wanted) && l.gather == gathers(out.back())));
      if (joins && both)
        maths = std::move(both);
      else
        maths = l.maths, first = &l;
      if (!joins) out.emplace_back();
      out.back().push_back(l.index);
    }
    return out;
  }

 private:
  bool alone(const graph_layer& l) const { return own_.count(l.type) > 0 || (l.maths && l.maths->joint() != nullptr); }

  // Its packets wait for each other, so only layers that benefit share such a stage.
  bool gathers(const std::vector<std::uint32_t>& group) const {
    return std::any_of(group.begin(), group.end(), [&](std::uint32_t l) { return g_.layers[l].gather; });
  }

  // A layer of the group that is recomputed in backward has a reader after the group. In the same
  // stage, that reader need not keep its input as long.
  bool awaited(const std::vector<std::uint32_t>& group) const {
    return std::any_of(group.begin(), group.end(), [&](std::uint32_t l) {
      if (!g_.layers[l].recompute) return false;
      return std::any_of(g_.layers.begin() + group.back() + 1, g_.layers.end(), [&](const graph_layer& reader) {
        return std::any_of(reader.inputs.begin(), reader.inputs.end(),
                           [&](tensor_ref t) { return t.layer == static_cast<std::int32_t>(l); });
      });
    });
  }

  // Same nodes and packets, and each part reads of the group's tensors what the same part computes.
  bool lies_as(const graph_layer& l, const std::vector<std::uint32_t>& group) const {
    const auto& here = where_[l.index];
    const auto& there = where_[group.back()];
    const auto alike = [](const layer_part& a, const layer_part& b) {
      return a.node == b.node && a.device == b.device && a.packets == b.packets && a.worker == b.worker;
    };
    if (here.kind != there.kind || !std::equal(here.parts.begin(), here.parts.end(), there.parts.begin(), there.parts.end(), alike))
      return false;
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      const auto from = l.inputs[k].layer;
      if (from < 0 || std::find(group.begin(), group.end(), static_cast<std::uint32_t>(from)) == group.end()) continue;
      for (std::size_t p = 0; p < here.parts.size(); ++p)
        if (!(needed(l, k, here.parts[p]) == made(g_, l.inputs[k], where_[static_cast<std::size_t>(from)].parts[p].features)))
          return false;
    }
    return true;
  }

  // Gradients of a tensor's consumers are added in layer order (ops/reader_sum.hpp). A stage adds
  // those of its own consumers first. With three or more consumers it must therefore host a prefix
  // of that order, or a single one: (a + b) + c, never a + (b + c). Two commute.
  bool keeps_order(const graph_layer& l, std::uint32_t first_in_group) const {
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (!l.grad_in_wanted[k]) continue;
      std::vector<std::uint32_t> takers;
      for (const auto& c : g_.consumers(l.inputs[k]))
        if (g_.layers[static_cast<std::size_t>(c.layer)].grad_in_wanted[c.output])
          takers.push_back(static_cast<std::uint32_t>(c.layer));
      if (takers.size() < 3 || takers.front() >= first_in_group) continue;
      if (std::any_of(takers.begin(), takers.end(), [&](auto t) { return t >= first_in_group && t < l.index; })) return false;
    }
    return true;
  }

  const model_graph& g_;
  const std::set<std::string>& own_;
  const std::vector<assignment>& where_;
};

// The layers of each stage: consecutive runs of the topological order, so that tensors between
// stages only go forward and the stage graph has no cycle. Layers of a stage have the same
// placement (`where`, by layer), and gradients are added in the same order as without grouping. A
// layer whose type is in `own_stage` always has its own stage.
std::vector<std::vector<std::uint32_t>> stage_groups(const model_graph& g, const std::set<std::string>& own_stage,
                                                     const std::vector<assignment>& where, grouping how) {
  return fuser(g, own_stage, where).groups(how);
}

// Mistakes: layers with recompute = true whose stage cannot run forward again, because other roles
// take part in it or because the weights of the forward are no longer available in backward.
diagnostics cannot_recompute(const model_graph& g, const std::set<std::string>& own_stage, weight_rule rule) {
  diagnostics wrong;
  for (const auto& l : g.layers) {
    if (!l.recompute || !l.in_train) continue;
    const auto at = position_of(l.spec->key_at, "recompute", l.spec->at);
    const auto name = "layer " + in_quotes(l.name) + ": recompute = true ";
    if (own_stage.count(l.type) || l.maths->joint())
      wrong.push_back({at, name + "is not supported for layers that compute several packets together"});
    else if (rule == weight_rule::latest && !l.params.empty())
      wrong.push_back(
          {at, name + "needs the weights of its forward in backward; pipeline.weights = \"latest\" does not keep them"});
  }
  return wrong;
}

// Mistakes: layers with gather = true whose packets cannot be computed as one.
diagnostics cannot_gather(const model_graph& g, weight_rule rule) {
  diagnostics wrong;
  for (const auto& l : g.layers) {
    if (!l.gather) continue;
    const auto refuse = [&](const std::string& why) {
      wrong.push_back({position_of(l.spec->key_at, "gather", l.spec->at), "layer " + in_quotes(l.name) + ": gather = true " + why});
    };
    if (!l.maths || !l.maths->gathered())
      refuse("needs a layer that can compute several packets as one (linear), not " + l.type);
    else if (l.recompute)
      refuse("cannot be combined with recompute = true");
    else if (rule != weight_rule::drain)
      refuse("needs the same weights for all packets of a step: set pipeline.weights = \"drain\"");
  }
  return wrong;
}

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
