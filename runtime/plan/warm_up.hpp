// Weight rules: the version of a layer's weights that a packet uses (docs/protocols.md, "Weight
// rules"), and how far pipelines may run ahead of their updates. A job's step is PipeDream's
// mini-batch (Narayanan et al. 2019, section 3.3): its packets share a version.
//
//   drain    step t runs at version t: the pipeline is empty between steps
//   stash    forward and backward of step t run at version t - d; d: the layer's delay
//   latest   forward runs at the newest version, at least t - d; backward at the version that is
//            newest when it begins
//
// Delays. Consecutive layers on the same nodes, with the same packets, are one pipeline stage; a
// stage whose packets are dealt over r nodes has r replicas. Let R be the sum of the replicas from
// a stage to the loss, inclusive, along the longest path (for a chain PipeDream's sum r - sum_{i<s}
// r_i). The stage warms up with floor((R - 1) / r) packets per replica. A step has `packets`
// packets, so the delay is ceil(floor((R - 1) / r) r / packets) whole steps. Delays depend on the
// graph and on placement alone, not on how layers are fused.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/plan/partition.hpp"

namespace troupe {

enum class weight_rule : std::uint8_t { drain, latest, stash };
weight_rule weight_rule_of(std::string_view name);  // "drain" | "latest" | "stash", as job_spec has it

// The delay of each layer, in steps. `where`: one assignment per layer.
std::vector<std::uint32_t> warm_up_steps(const model_graph& g, const std::vector<assignment>& where, std::uint32_t packets);

}  // namespace troupe
