// Adds the roles of workers: loaders, stages and worker syncs, and the workers of placed layers.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>
#include <utility>

#include "runtime/model/maths_steps.hpp"

namespace troupe {
namespace {

std::string stage_name(const plan_draft& draft, const std::vector<std::uint32_t>& layers) {
  std::vector<const graph_layer*> all;
  for (auto l : layers) all.push_back(&draft.graph.layers[l]);
  const auto steps = maths_steps(draft.graph, all, draft.plan.fuse_layers);
  if (steps.size() == 1) return troupe::name_of(steps[0], all);
  return all.front()->name + ".." + all.back()->name;
}

void add_stage(plan_draft& draft, const std::vector<std::uint32_t>& layers, std::size_t part, const std::string& prefix,
               std::uint32_t node, std::uint32_t worker) {
  const auto& a = draft.where[layers[0]];
  auto name = prefix + "/" + stage_name(draft, layers);
  if (a.placed && a.parts.size() > 1) name += "." + std::to_string(part);
  auto& r = draft.add_role(role_kind::stage, std::move(name), node, worker);
  r.layers = layers;
  r.packets = a.parts[part].packets;
  r.slots = under_way(draft, r.packets);
  r.train_slots = train_slots(draft, layers, r.packets);
  for (auto l : layers) {
    r.parts.push_back(make_part(draft.graph, draft.graph.layers[l], draft.where[l].parts[part]));
    draft.stage_of[l][part] = r.id;
  }
  draft.plan.stages.back().push_back(r.id);
}

}  // namespace

std::vector<std::uint32_t> nodes_with(const std::vector<node_spec>& nodes, const std::string& role) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(nodes[i].roles.begin(), nodes[i].roles.end(), role) != nodes[i].roles.end())
      found.push_back(static_cast<std::uint32_t>(i));
  return found;
}

role_plan& plan_draft::add_role(role_kind kind, std::string name, std::uint32_t node, std::uint32_t worker) {
  within(plan.roles.size() + 1, max_roles, "roles", workers_at(job));
  role_plan r;
  r.id = role_id{static_cast<std::uint32_t>(plan.roles.size())};
  r.kind = kind;
  r.name = std::move(name);
  r.node = node;
  r.worker = worker;
  plan.roles.push_back(std::move(r));
  return plan.roles.back();
}

void add_worker(plan_draft& draft, std::uint32_t w, std::uint32_t node) {
  auto& plan = draft.plan;
  const auto prefix = "worker" + std::to_string(w);
  plan.loaders.push_back(draft.add_role(role_kind::loader, prefix + "/loader", node, w).id);
  plan.stages.emplace_back();
  for (const auto& layers : draft.groups)
    if (!draft.where[layers[0]].placed) add_stage(draft, layers, w, prefix, node, w);
  auto& worker_role = draft.add_role(role_kind::worker, prefix, node, w);
  worker_role.packets = plan.ranges[w];
  plan.workers.push_back(worker_role.id);
}

// Adds the workers of placed layers: one for each node, device and range of packets. A second part
// of the same layer there gets its own worker.
void add_hosts(plan_draft& draft) {
  auto& plan = draft.plan;
  struct host {
    std::uint32_t node;
    std::int32_t device;
    packet_range packets;
    std::vector<std::pair<std::size_t, std::size_t>> stages;  // group, part
  };
  std::vector<host> hosts;
  for (std::size_t g = 0; g < draft.groups.size(); ++g) {
    const auto& a = draft.where[draft.groups[g][0]];
    if (!a.placed) continue;
    for (std::size_t k = 0; k < a.parts.size(); ++k) {
      const auto at = std::find_if(hosts.begin(), hosts.end(), [&](const host& h) {
        const auto twice = [&](const auto& s) { return s.first == g; };
        return h.node == a.parts[k].node && h.device == a.parts[k].device && h.packets == a.parts[k].packets &&
               std::none_of(h.stages.begin(), h.stages.end(), twice);
      });
      auto& h = at != hosts.end() ? *at : hosts.emplace_back(host{a.parts[k].node, a.parts[k].device, a.parts[k].packets, {}});
      h.stages.emplace_back(g, k);
    }
  }
  for (const auto& h : hosts) {
    const auto index = static_cast<std::uint32_t>(plan.workers.size());
    const auto prefix = "host" + std::to_string(index - draft.workers);
    plan.stages.emplace_back();
    for (const auto& [group, part] : h.stages) add_stage(draft, draft.groups[group], part, prefix, h.node, index);
    auto& worker_role = draft.add_role(role_kind::worker, prefix, h.node, index);
    worker_role.packets = h.packets;
    plan.workers.push_back(worker_role.id);
    if (h.device == any_device) continue;
    draft.named_devices[plan.workers.back()] = static_cast<std::uint32_t>(h.device);
    for (auto s : plan.stages.back()) draft.named_devices[s] = static_cast<std::uint32_t>(h.device);
  }
}

}  // namespace troupe
