// Which layers share a stage.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "runtime/graph/partition.hpp"

namespace troupe {

// Layers of each stage: consecutive runs of the topological order, so that tensors between stages only go forward and the stage graph
// cannot have a cycle. Without `fuse`, one layer each; with it, as many as lie alike (`where`, by layer) and keep the order in which
// gradients are added. A layer whose type is in `own_stage` always has a stage to itself.
std::vector<std::vector<std::uint32_t>> stage_groups(const model_graph& g, const std::set<std::string>& own_stage,
                                                     const std::vector<assignment>& where, bool fuse);

}  // namespace troupe
