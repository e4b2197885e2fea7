// From a job file's text to a prepared job: plugins, tables, specification, data, graph, plan.
// Shared by all front ends: the command line, the daemon, the REPL.
// Errors: diagnostics; no exception is thrown.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/opened_data.hpp"

namespace troupe {

// What a host allows submitted jobs to name: its plugins, which are already in its tables, and
// folders for data and checkpoints.
struct job_limits {
  std::vector<std::string> plugins, data, checkpoints = {};
};

struct job_text {
  std::string text;
  std::string file;                       // as the user named it; positions and relative paths refer to it
  std::vector<std::string> overrides;     // "key.path=value"
  std::optional<job_limits> limits = {};  // none: the job may name any file that this process can open
  opened_data* opened = nullptr;          // null: the data is opened anew
};

using job_adjustment = std::function<void(job_spec&, std::vector<node_spec>&)>;

// `all`: the initial tables; plugins that the job names are added to a copy. `nodes` empty: one
// node "local" with the job's devices, which this process must be able to use. `adjust`: changes
// the specification and the nodes before anything is built from them.
expected<std::shared_ptr<prepared_job>, diagnostics> prepare_text(const job_text& what, std::shared_ptr<const tables> all,
                                                                  std::vector<node_spec> nodes = {},
                                                                  const job_adjustment& adjust = {});

}  // namespace troupe
