// Memory of one packet on its way through the layers of one node, forward and backward: the tensors
// held at each moment. The rules are those by which a stage releases tensors
// (runtime/stage/stage_memory.cpp); tests/memory compares the estimates with measurements.
#pragma once

#include <memory>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

// Layers (or parts of them) of a stage that are computed as one (maths_steps.hpp); usually a single
// layer.
struct hosted_step {
  const graph_layer *first = nullptr, *last = nullptr;
  std::shared_ptr<const layer> maths;
  role_id stage = no_role;
  double weights = 0, delayed = 0;  // bytes of parameters; bytes of the earlier versions that weights = "stash" keeps
  double transforms = 0;            // bytes: the most that one convolution may take for Winograd's algorithm
};
std::vector<hosted_step> hosted_in(const job_plan& p, const model_graph& g, const role_plan& stage, dtype t);

struct packet_bytes {
  double peak = 0;       // the most at any moment, workspace included
  double workspace = 0;  // of the layer that runs at that moment
  // By step. kept: bytes of its outputs and saved data, from forward to backward. working: bytes
  // that it needs while it runs, beyond inputs and outputs.
  std::vector<double> kept, working;
};
// `steps` are in the order of computation. Parameters and their gradients are not counted. Without
// `training`: forward only.
packet_bytes follow_packet(const std::vector<hosted_step>& steps, dtype t, bool training);

}  // namespace troupe
