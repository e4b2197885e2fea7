// Checks that everything a plan sends between nodes fits into one message. Blocks of parameters are
// cut until they fit (plan_blocks.cpp). The size of a packet follows from the job; a packet that is
// too large is a user mistake, found before anything starts. Checked are activations and their
// gradients, examples that are sent, and state that layers carry from step to step.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

// One error per layer whose packet is larger than `most` bytes minus the message overhead.
diagnostics too_large_to_send(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most);
// An error, the end of a sentence, if workers on several nodes cannot send each other all
// parameters of a layer in one message.
expected<void> check_message_sizes(const job_plan& p, const model_graph& g, const job_spec& job, std::int64_t most);

}  // namespace troupe
