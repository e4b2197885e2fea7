// Computes the number of packets that can be at a stage at once.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>

namespace troupe {

bool reports(const graph_layer& l) { return l.maths->is_loss() || l.maths->is_metric(); }

namespace {

// The number of packets of range `packets` that can be in flight at once, in training or in
// evaluation. A loader has credit for in_flight() packets at each of its consumers, and every loss
// and metric is a consumer (add_windows), which returns the credit only when it has received the
// packet. With as many sub-solvers and as much credit everywhere behind the loader, no packet waits
// for another at any stage: joins cannot deadlock, and a packet of the next step cannot block one
// of this step.
std::uint32_t under_way(const plan_draft& draft, packet_range packets, bool train) {
  const auto& plan = draft.plan;
  if (!plan.placed) return plan.in_flight();
  std::uint32_t n = 0;
  for (const auto& r : plan.ranges) {
    if (intersection(r, packets).count == 0) continue;
    for (const auto& l : draft.graph.layers) {
      if (!reports(l) || !(train ? l.in_train : l.in_test)) continue;
      const auto& a = draft.where[l.index];
      if (a.kind != split_kind::batch)
        n += plan.in_flight();
      else
        for (const auto& p : a.parts) n += intersection(p.packets, r).count > 0 ? plan.in_flight() : 0;
    }
  }
  return std::max(n, plan.in_flight());  // no layer reports: an evaluation without losses and metrics
}

}  // namespace

std::uint32_t under_way(const plan_draft& draft, packet_range packets) {
  return std::max(under_way(draft, packets, true), under_way(draft, packets, false));
}

// With a delay of d, at most the packets of d + 1 steps are between their forward and their
// backward.
std::uint32_t train_slots(const plan_draft& draft, const std::vector<std::uint32_t>& layers, packet_range packets) {
  std::uint32_t d = 0;
  for (auto l : layers) d = std::max(d, draft.plan.delay[l]);
  const auto all = under_way(draft, packets, true);
  return draft.plan.rule == weight_rule::drain ? all : std::min(all, (d + 1) * packets.count);
}

void warm_up(plan_draft& draft) {
  auto& plan = draft.plan;
  plan.rule = weight_rule_of(draft.job.pipeline.weights);
  plan.delay.assign(draft.graph.layers.size(), 0);
  if (plan.rule == weight_rule::drain || !draft.errors.empty()) return;
  plan.delay = warm_up_steps(draft.graph, draft.where, plan.packets);
  plan.warm_up = *std::max_element(plan.delay.begin(), plan.delay.end());
}

}  // namespace troupe
