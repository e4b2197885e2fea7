// Which layers share a stage.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/plan/partition.hpp"
#include "runtime/plan/warm_up.hpp"

namespace troupe {

// Which layers that lie alike share one: as many as possible (`all`), those that are computed as
// one (`steps`, model/maths_steps.hpp), or none.
struct grouping {
  bool all = false, steps = true;
};

// Layers of each stage: consecutive runs of the topological order, so that tensors between stages
// only go forward and the stage graph cannot have a cycle. Those of a stage lie alike (`where`, by
// layer) and keep the order in which gradients are added. A layer whose type is in `own_stage`
// always has a stage to itself.
std::vector<std::vector<std::uint32_t>> stage_groups(const model_graph& g, const std::set<std::string>& own_stage,
                                                     const std::vector<assignment>& where, grouping how);

// Layers with recompute = true whose stage cannot run their forward again: it is not the stage's
// alone to run, or backward has not the weights that it ran with.
diagnostics cannot_recompute(const model_graph& g, const std::set<std::string>& own_stage, weight_rule rule);
// Layers with gather = true whose packets cannot be computed as one.
diagnostics cannot_gather(const model_graph& g, weight_rule rule);

}  // namespace troupe
