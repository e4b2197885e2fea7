// Memory of a plan: an upper estimate by role and by node, from shapes alone. Runs and allocates
// nothing.
//
// Bytes are counted where they are allocated: a tensor that is passed between roles of one node
// counts once. A packet's memory is followed through forward and backward by the rules of a stage
// (runtime/stage/stage_memory.cpp). Outputs are held until their last reader, or until the last
// backward that needs them; gradients until they are consumed. Layers work in place where they can.
// Outputs of layers with recompute = true are computed again.
// Not included: memory of libraries and of the process itself, data that waits on sockets, and
// evaluation with packets larger than training's.
// Errors: none.  Threads: functions without state.
#pragma once

#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

// Bytes of one role.
struct role_memory {
  double parameters = 0;   // shards: their blocks; others: copies that are not a shard's own on the same node
  double gradients = 0;    // of all packets of a step before they are summed; new weights replace them where possible
  double states = 0;       // of the update rule
  double activations = 0;  // stages: of all packets in flight, between forward and backward; loaders: examples
  double workspace = 0;    // while one packet is computed
  double total() const { return parameters + gradients + states + activations + workspace; }
};

struct plan_memory {
  std::vector<role_memory> roles;  // by role_id
  // By node. `activations` and `workspace` of a node are below the sum of its roles', since not all
  // roles reach their peak at the same time.
  std::vector<role_memory> nodes;
};

plan_memory memory_of(const job_plan& p, const model_graph& g, const job_spec& job);

}  // namespace troupe
