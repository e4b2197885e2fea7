// One packet on its way through layers of one node, forward and backward: what is held at each
// moment. The rules are those by which a stage lets go of tensors (runtime/stage/stage_memory.cpp);
// the measure is tests/memory.
#pragma once

#include <memory>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

// Layers (or parts of them) in a stage that are computed as one (maths_steps.hpp); nearly always it
// is one layer.
struct hosted_step {
  const graph_layer *first = nullptr, *last = nullptr;
  std::shared_ptr<const layer> maths;
  role_id stage = no_role;
  double weights = 0, delayed = 0;  // bytes of parameters; and of the earlier versions that weights = "stash" keeps
  double transforms = 0;            // bytes: the most that a convolution may take for those of Winograd's algorithm
};
std::vector<hosted_step> hosted_in(const job_plan& p, const model_graph& g, const role_plan& stage, dtype t);

struct packet_bytes {
  double peak = 0;       // the most at any moment, workspace included
  double workspace = 0;  // of the layer that was at work then
  // By step: from forward to backward, of its outputs and what it saves; and what it needs while it
  // works beyond inputs and outputs.
  std::vector<double> kept, working;
};
// `steps` in the order in which they are computed. Parameters and their gradients do not count. Not
// `training`: forward alone.
packet_bytes follow_packet(const std::vector<hosted_step>& steps, dtype t, bool training);

}  // namespace troupe
