// Checks submissions for the cluster controller: reads the job, opens its data, makes its plan, and
// tests the file that the job starts from. Runs on the coordinator's node in an actor of its own,
// so that slow data or a large plan does not delay the job executor.
// Errors: values. Throws only std::bad_alloc.
#pragma once

#include <memory>

#include "runtime/base/result.hpp"
#include "runtime/node/executor/job_preparer.hpp"
#include "runtime/node/executor/job_reading.hpp"
#include "runtime/node/executor/state_store.hpp"

namespace troupe::control {

class checker {
 public:
  // `plans`: null: those that this node makes. `states`: null: files.
  explicit checker(job_place at, std::shared_ptr<job_preparer> plans = {}, std::shared_ptr<state_store> states = {});

  checked check(const check_text& what) const;

 private:
  expected<std::optional<given_file>, diagnostics> look_for_checkpoints(const prepared_job& j, const check_text& what,
                                                                        std::vector<std::string>& notes) const;

  const job_place at_;
  const std::shared_ptr<job_preparer> plans_;
  const std::shared_ptr<state_store> states_;
};

}  // namespace troupe::control
