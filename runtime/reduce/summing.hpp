// Sums of gradients as values of the packet tree. A list of tensors behind a handle, so that a role
// may plan additions and pass the result's handle on before the task that computes it has run;
// tasks of one slot run in the order they were planned.
#pragma once

#include <memory>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/role.hpp"

namespace troupe {

using sum_ptr = std::shared_ptr<tensors>;

// out = left + right, all three lists alike; empty tensors are skipped.
struct addition {
  sum_ptr left, right, out;
};
using additions = std::vector<addition>;

sum_ptr plan_addition(const sum_ptr& left, const sum_ptr& right, additions& due);
void run_additions(const additions& due, device& d);
task_cost cost_of(const additions& due);

}  // namespace troupe
