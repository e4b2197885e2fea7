// Checks submissions for the head: reads a job, opens its data, makes its plan, measures its
// convolutions where it wants that, and looks whether the file that it begins with fits. On the
// coordinator's node, by an actor of its own: a job whose data are slow or whose plan is large must
// not hold up what the job executor does for the running job.
// Errors: values. Nothing throws but std::bad_alloc.
#pragma once

#include <memory>

#include "actors/control/executor/job_reading.hpp"
#include "runtime/node/convolution_times.hpp"

namespace troupe::control {

class checker {
 public:
  // `dev`: the node's first device: convolutions are measured on it.
  checker(job_place at, std::shared_ptr<device> dev) : at_(std::move(at)), dev_(std::move(dev)) {}

  checked check(const check_text& what) const;

 private:
  std::optional<diagnostic> look_for_checkpoints(const prepared_job& j, check_text& what, std::optional<given_file>& found,
                                                 std::vector<std::string>& notes) const;
  std::variant<resolved_convolutions, diagnostics> resolved(const check_text& what, std::shared_ptr<prepared_job> j) const;

  const job_place at_;
  const std::shared_ptr<device> dev_;
};

}  // namespace troupe::control
