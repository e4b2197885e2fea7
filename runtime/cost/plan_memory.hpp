// What a plan will hold in memory: an upper estimate, by role and by node, from shapes alone.
// Nothing is run or allocated.
//
// Bytes are counted where they are made: a tensor that travels between roles of one node is one
// tensor. What a packet holds is followed through its forward and its backward as a stage lets go
// of it (runtime/stage/stage_memory.cpp): outputs until their last reader, or until the backward
// that wants them; gradients until they are taken; in place where a layer can; layers with
// recompute = true made again.
// Left out: what libraries and the process itself take, what waits on sockets, and evaluation with
// packets larger than training's.
// Errors: none.  Threads: functions without state.
#pragma once

#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

// Bytes of one role.
struct role_memory {
  double parameters = 0;  // shards: their blocks. Others: copies that are not a shard's own on the same node
  double gradients =
      0;              // of all packets of a step that are not added up yet; new weights are made in their place where they can be
  double states = 0;  // of the update rule
  double activations = 0;  // stages: what all packets in flight hold between forward and backward; loaders: examples
  double workspace = 0;    // while one packet is worked on
  double total() const { return parameters + gradients + states + activations + workspace; }
};

struct plan_memory {
  std::vector<role_memory> roles;  // by role_id
  // By node. `activations` and `workspace` of a node are less than its roles': not every role's
  // packet is at its worst at one time.
  std::vector<role_memory> nodes;
};

plan_memory memory_of(const job_plan& p, const model_graph& g, const job_spec& job);

}  // namespace troupe
