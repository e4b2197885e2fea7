// The update rule of a job, with the average of the weights if the job keeps one ([train.average]).
#pragma once

#include <cstdint>
#include <memory>

#include "ops/rule.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

inline bool keeps_average(const job_spec& s) { return !s.train.average.kind.empty(); }
// The number of updates before the first that counts. With start_fraction it needs
// prepared_job::last_step.
std::uint64_t average_start(const prepared_job& j);
std::unique_ptr<rule> make_rule(const prepared_job& j);
// An error if the job cannot keep the average that it asks for. Call it when the job's plan and
// last step are known.
expected<void, diagnostic> check_average(const prepared_job& j);

}  // namespace troupe
