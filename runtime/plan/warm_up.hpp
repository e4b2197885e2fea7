// Weight rules: which version of a layer's weights a packet meets (docs/protocols.md, "Weight
// rules"), and how far pipelines may run ahead of their updates. A job's step is PipeDream's
// mini-batch (Narayanan et al. 2019, section 3.3): its packets share a version.
//
//   drain    step t runs at version t: a pipeline is empty between two steps
//   stash    the forward of step t runs at version t - d, its backward at the same; d is the layer's delay
//   latest   the forward runs at the newest version there is, t - d at least; the backward at what is newest when it begins
//
// Delays. Layers that follow each other on the same nodes, with the same packets, are one pipeline
// stage; a stage whose packets are dealt over r nodes has r replicas. With R the sum of the
// replicas from a stage to the loss, itself included, along the longest way (for a chain
// PipeDream's sum r - sum_{i<s} r_i), the stage warms up with floor((R - 1) / r) packets a replica.
// A step has `packets` packets, so that is ceil(floor((R - 1) / r) r / packets) whole steps. Delays
// depend on the graph and on places alone, not on how layers are fused.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/plan/partition.hpp"

namespace troupe {

enum class weight_rule : std::uint8_t { drain, latest, stash };
weight_rule weight_rule_of(std::string_view name);  // "drain" | "latest" | "stash", as job_spec has it

// By layer, in steps. `where`: one assignment a layer.
std::vector<std::uint32_t> warm_up_steps(const model_graph& g, const std::vector<assignment>& where, std::uint32_t packets);

}  // namespace troupe
