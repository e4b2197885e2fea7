// From a job file's text to a prepared job: plugins, tables, specification, data, graph, plan. What
// every front end does alike: the command line, a daemon, the REPL.
// Errors: diagnostics; no exception leaves.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

// What a host lets the jobs of others name: its plugins, which its tables have already, and folders
// to read data and to keep checkpoints in.
struct job_limits {
  std::vector<std::string> plugins, data, checkpoints = {};
};

struct job_text {
  std::string text;
  std::string file;                       // as the user named it: positions and relative paths refer to it
  std::vector<std::string> overrides;     // "key.path=value"
  std::optional<job_limits> limits = {};  // none: whoever wrote it may name what this process may open
};

using job_adjustment = std::function<void(job_spec&, std::vector<node_spec>&)>;

// `all`: the tables to begin with; plugins that the job names are added to a copy. `nodes` empty:
// one node "local" with the job's devices. `adjust`: changes the specification, and the nodes,
// before anything is built from them.
std::variant<std::shared_ptr<prepared_job>, diagnostics> prepare_text(const job_text& what, std::shared_ptr<const tables> all,
                                                                      std::vector<node_spec> nodes = {},
                                                                      const job_adjustment& adjust = {});

}  // namespace troupe
