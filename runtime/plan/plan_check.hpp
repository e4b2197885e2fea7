// Does a plan do the whole job, and nothing twice? Whoever is about to run one asks: prepare_job,
// on every node, for the first plan of a job and for each that people make of it later; and the
// coordinator role before it tells anybody to begin. The planner is not asked to be right.
//
//   * every layer: the parts that stages host cover (packets of a step) x (features) exactly once;
//   * every input of every part, in every phase that the layer runs in: edges bring each feature of
//     each of its packets exactly once, from who makes it, and its gradient has a way back;
//   * every parameter: blocks cover its elements exactly once, each block is on a shard, and
//     whoever has a part of the parameter takes the blocks of that part and no other;
//   * every edge is known at both its ends, every role has its number, every worker's half has its
//     stages, every packet a loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct plan_fault {
  std::int32_t layer = -1;  // index in the graph; -1: of no layer
  std::string text;         // names the layer, the parts, and what is lacking or there twice
};

// Nothing: the plan is whole. At most one fault for each layer's cover, for each input of a part
// and for each parameter. Takes any plan, however broken. About (stages x edges of a stage +
// blocks) steps.
std::vector<plan_fault> check_plan(const job_plan& p, const model_graph& g);

}  // namespace troupe
