// What the training of a job needs and can be checked before it starts: layers that learn from the
// packets that they get, and evaluations that produce what its conditions compare.
#pragma once

#include "runtime/base/diagnostic.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

// Returns a mistake for each layer that cannot be trained with the job's packets
// (layer::untrainable), and for each finish condition and schedule that waits for an evaluation
// or an accuracy which the job does not have. The plan must have been made.
diagnostics check_training(const prepared_job& j);

}  // namespace troupe
