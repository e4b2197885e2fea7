// Sums of gradients as values of the packet tree. A sum is a list of tensors behind a handle, so a
// role can plan additions and pass on the handle of the result before the task that computes it has
// run. Tasks of one slot run in the order in which they were planned.
#pragma once

#include <memory>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/role.hpp"

namespace troupe {

using sum_ptr = std::shared_ptr<tensors>;

// out = left + right. The three lists have tensors of the same shapes; empty tensors are skipped.
struct addition {
  sum_ptr left, right, out;
};
using additions = std::vector<addition>;

sum_ptr plan_addition(const sum_ptr& left, const sum_ptr& right, additions& due);
void run_additions(const additions& due, device& d);
task_cost cost_of(const additions& due);

}  // namespace troupe
