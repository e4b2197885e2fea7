// One packet on its way through layers of one node, forward and backward: what is held at each moment. The rules are those by which a
// stage lets go of tensors (runtime/pipeline/stage_memory.cpp); the measure is tests/actors/memory_test.cpp.
#pragma once

#include <vector>

#include "runtime/graph/plan.hpp"

namespace troupe {

// A layer, or the part of one, in a stage.
struct hosted_layer {
  const graph_layer* layer = nullptr;
  const part_layer* part = nullptr;
  role_id stage = no_role;
  double weights(const model_graph& g, dtype t) const;  // bytes of its parameters
};
std::vector<hosted_layer> hosted_in(const model_graph& g, const role_plan& stage);

struct packet_bytes {
  double peak = 0;       // the most at any moment, workspace included
  double workspace = 0;  // of the layer that was at work then
  // By layer: from forward to backward, of its outputs and what it saves; and what it needs while it works beyond inputs and outputs.
  std::vector<double> kept, working;
};
// `layers` in topological order. Parameters and their gradients do not count. Not `training`: forward alone.
packet_bytes follow_packet(const model_graph& g, const std::vector<hosted_layer>& layers, dtype t, bool training);

}  // namespace troupe
