// What a plan will hold in memory: an upper estimate, by role and by node, from shapes alone. Nothing is run or allocated.
//
// Bytes are counted where they are made: a tensor that travels between roles of one node is one tensor. What a packet holds is followed
// through its forward and its backward as a stage lets go of it (runtime/pipeline/stage_memory.cpp): outputs until their last reader, or
// until the backward that wants them; gradients until they are taken; in place where a layer can; layers with recompute = true made again.
// Left out: what libraries and the process itself take, what waits on sockets, and evaluation with packets larger than training's.
// Errors: none.  Threads: functions without state.
#pragma once

#include <vector>

#include "runtime/graph/plan.hpp"

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
  // By node. `activations` and `workspace` of a node are less than its roles': not every role's packet is at its worst at one time.
  std::vector<role_memory> nodes;
};

// What roles hold of their own, by what they do (role_kinds.cpp): a loader the examples of packets under way, the data server those that it
// hands out, a stage older versions of its weights, a worker or reducer sums, a shard its blocks.
void hold_loaded(const plan_view& v, const role_plan& r, role_memory& m);
void hold_served(const plan_view& v, const role_plan& r, role_memory& m);
void hold_versions(const plan_view& v, const role_plan& r, role_memory& m);
void hold_sums(const plan_view& v, const role_plan& r, role_memory& m);
void hold_blocks(const plan_view& v, const role_plan& r, role_memory& m);
void hold_copies(const plan_view& v, const role_plan& r, role_memory& m);

plan_memory memory_of(const job_plan& p, const model_graph& g, const job_spec& job);

}  // namespace troupe
