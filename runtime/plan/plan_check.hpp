// Checks that a plan covers the whole job exactly once. The check does not rely on the planner.
// Called before a plan is used: by prepare_job on every node, for the first plan of a job and for
// each later one, and by the coordinator role before it starts the job.
//
//   * Layers: the parts that stages host cover (packets of a step) x (features) exactly once.
//   * Inputs of parts, in every phase that the layer runs in: edges bring each feature of each
//     packet exactly once, from a role that computes it, and the gradient has a route back.
//   * Parameters: blocks cover the elements exactly once, each block is on a shard, and a worker
//     with a part of the parameter takes exactly the blocks of that part.
//   * Every edge is listed at both ends, every role has its number, every worker its stages, and
//     every packet a loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct plan_fault {
  std::int32_t layer = -1;  // index in the graph; -1: not about a layer
  std::string text;         // names the layer, the parts, and what is missing or duplicated
};

// Returns an empty list if the plan is valid. Returns at most one fault per layer, per input of a
// part and per parameter. Accepts any plan, however broken. Takes about (stages x edges of a stage
// + blocks) steps.
std::vector<plan_fault> check_plan(const job_plan& p, const model_graph& g);

}  // namespace troupe
