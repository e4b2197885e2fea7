// Where a job executor and a checker get the plans of jobs. node_preparer makes them. For many
// simulated nodes of one process, shared_preparer.hpp makes each of them once.
// Errors: values.  Threads: functions without state, unless an implementation says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/executor/job_reading.hpp"

namespace troupe::control {

// A plan. Other nodes may have the same object: who changes it copies it first (copy_of in
// runtime/job/copy.hpp).
struct made_plan {
  std::shared_ptr<const prepared_job> job;
  std::string hash;  // plan_hash()
};

class job_preparer {
 public:
  virtual ~job_preparer() = default;
  // The plan of a job as submitted. `job`: its id.
  virtual expected<made_plan, diagnostics> first(std::uint32_t job, const job_text& what) = 0;
  // A later plan of that job. `original`: what first() has returned.
  virtual expected<made_plan, diagnostics> again(const std::shared_ptr<const prepared_job>& original, const amendments& a) = 0;
  // The plan, continued at a step, for a node that has none of the state (continue_at in
  // runtime/job/amend.hpp).
  virtual std::shared_ptr<const prepared_job> at_step(const std::shared_ptr<const prepared_job>& j, std::uint64_t step);
};

class node_preparer final : public job_preparer {
 public:
  // `run_folders`: the node keeps run folders (runtime/node/runs).
  explicit node_preparer(job_place at, bool run_folders = false) : at_(std::move(at)), run_folders_(run_folders) {}
  expected<made_plan, diagnostics> first(std::uint32_t job, const job_text& what) override;
  expected<made_plan, diagnostics> again(const std::shared_ptr<const prepared_job>& original, const amendments& a) override;

 private:
  const job_place at_;
  const bool run_folders_;
};

}  // namespace troupe::control
