// Everything that a plan sends from node to node fits into a message. Blocks of parameters are cut
// until they do (plan_blocks.cpp); packets are what the job says they are, and one that is too
// large is the user's mistake, found before anything begins: activations and their gradients,
// examples that travel, and state that layers carry from step to step.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/plan/plan.hpp"

namespace troupe {

// One error for each layer whose packet is larger than `most` bytes, less what a message needs for
// itself.
diagnostics too_large_to_send(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most);
// Why workers on several nodes cannot send each other all parameters of a layer at once; empty:
// they can.
std::string layers_too_large_to_send(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most);

}  // namespace troupe
