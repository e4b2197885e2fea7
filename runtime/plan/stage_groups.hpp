// Groups layers into stages.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/plan/partition.hpp"
#include "runtime/plan/warm_up.hpp"

namespace troupe {

// Which layers with the same placement share a stage: as many as possible (`all`), those that are
// computed as one (`steps`, model/maths_steps.hpp), or none.
struct grouping {
  bool all = false, steps = true;
};

// The layers of each stage: consecutive runs of the topological order, so that tensors between
// stages only go forward and the stage graph has no cycle. Layers of a stage have the same
// placement (`where`, by layer), and gradients are added in the same order as without grouping. A
// layer whose type is in `own_stage` always has its own stage.
std::vector<std::vector<std::uint32_t>> stage_groups(const model_graph& g, const std::set<std::string>& own_stage,
                                                     const std::vector<assignment>& where, grouping how);

// Mistakes: layers with recompute = true whose stage cannot run forward again, because other roles
// take part in it or because the weights of the forward are no longer available in backward.
diagnostics cannot_recompute(const model_graph& g, const std::set<std::string>& own_stage, weight_rule rule);
// Mistakes: layers with gather = true whose packets cannot be computed as one.
diagnostics cannot_gather(const model_graph& g, weight_rule rule);

}  // namespace troupe
