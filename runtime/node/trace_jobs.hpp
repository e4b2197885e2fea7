// The job of a trace as text (trace_job), and back: so that `troupe critical` needs only the trace.
// Errors: diagnostics.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

// `threads`: of each node; 0: the number of its CPUs.
trace_job trace_job_of(const prepared_job& j, unsigned threads);
trace_job trace_job_of(const job_spec& s, const tables& all, const std::vector<node_spec>& nodes, unsigned threads);

struct traced_job {
  std::shared_ptr<prepared_job> job;  // without data (make_counted()), and without an end
  unsigned threads = 1;               // of the node that has most
};
// `file`: name of the trace, for messages. `load_plugins`: as of job_text (prepare_text.hpp).
expected<traced_job, diagnostics> job_of_trace(const trace_job& t, const std::string& file, bool load_plugins);

}  // namespace troupe
