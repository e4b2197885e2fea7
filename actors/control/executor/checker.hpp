// Checks submissions for the cluster controller: reads the job, opens its data, makes its plan, and
// tests the file that the job starts from. Runs on the coordinator's node in an actor of its own,
// so that slow data or a large plan does not delay the job executor.
// Errors: values. Throws only std::bad_alloc.
#pragma once

#include <memory>

#include "actors/control/executor/job_reading.hpp"
#include "runtime/base/result.hpp"

namespace troupe::control {

class checker {
 public:
  explicit checker(job_place at) : at_(std::move(at)) {}

  checked check(const check_text& what) const;

 private:
  expected<std::optional<given_file>, diagnostics> look_for_checkpoints(const prepared_job& j, const check_text& what,
                                                                        std::vector<std::string>& notes) const;

  const job_place at_;
};

}  // namespace troupe::control
