// Checks submissions for the cluster controller: reads the job, opens its data, makes its plan,
// measures convolutions if the job requests that, and tests the file that the job starts from. Runs
// on the coordinator's node in an actor of its own, so that slow data or a large plan does not
// delay the job executor.
// Errors: values. Throws only std::bad_alloc.
#pragma once

#include <memory>

#include "actors/control/executor/job_reading.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/convolution_times.hpp"

namespace troupe::control {

class checker {
 public:
  // `dev`: the node's first device, on which convolutions are measured.
  checker(job_place at, std::shared_ptr<device> dev) : at_(std::move(at)), dev_(std::move(dev)) {}

  checked check(const check_text& what) const;

 private:
  expected<std::optional<given_file>, diagnostics> look_for_checkpoints(const prepared_job& j, const check_text& what,
                                                                        std::vector<std::string>& notes) const;
  expected<resolved_convolutions, diagnostics> resolved(const check_text& what, std::shared_ptr<prepared_job> j) const;

  const job_place at_;
  const std::shared_ptr<device> dev_;
};

}  // namespace troupe::control
