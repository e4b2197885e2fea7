// Adds the roles that evaluate in parallel with training.
#include "runtime/plan/plan_draft.hpp"

namespace troupe {

// The tester is on the first node with role "tester", else on the node of the last worker: a node
// that the topology does not use may be down, and the job must not depend on it. It has a single
// stage with the whole model, which runs on request.
void add_tester(plan_draft& draft) {
  auto& plan = draft.plan;
  const auto offered = nodes_with(draft.nodes, "tester");
  const auto node = offered.empty() ? plan[plan.loaders.back()].node : offered.front();
  const auto none = static_cast<std::uint32_t>(draft.workers);
  const auto add = [&](role_kind kind, const char* name) {
    auto& r = draft.add_role(kind, name, node, none);
    r.tester = true;
    return r.id;
  };
  plan.tester_loader = add(role_kind::loader, "tester/loader");
  plan.tester_stage = add(role_kind::stage, "tester/model");
  for (const auto& l : draft.graph.layers)
    if (l.in_test) plan.roles.back().layers.push_back(l.index);
  plan.roles.back().parts.resize(plan.roles.back().layers.size());
  plan.tester = add(role_kind::tester, "tester");
  const packet_range any{0, ~0u};
  for (const auto& l : draft.graph.layers)
    for (std::size_t k = 0; l.in_test && k < l.inputs.size(); ++k)
      if (l.inputs[k].layer < 0) add_edge(draft, l.inputs[k], plan.tester_loader, plan.tester_stage, l, k, any, {}, {});
  for (auto i : plan[plan.tester_stage].in_edges) plan.edges[i].in_train = plan.edges[i].grad_back = false;
}

}  // namespace troupe
