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
// folders for data and checkpoints. Data under a folder with an owner
// (runtime/record/job_owner.hpp) is not read either: it is kept for a job.
struct job_limits {
  std::vector<std::string> plugins, data, checkpoints = {};
  std::vector<std::string> withheld = {};  // no data is read under these, even if they are under `data`
};

struct job_text {
  std::string text;
  std::string file;                       // as the user named it; positions and relative paths refer to it
  std::vector<std::string> overrides;     // "key.path=value"
  std::optional<job_limits> limits = {};  // none: the job may name any file that this process can open
  // Whether the plugins that the job names are loaded, which runs their code. True only if the user
  // named this job file or wrote this text, or has allowed its plugins by --load-plugins. False for
  // a text that was found in another file: a run folder, a recording, a trace, a scenario.
  bool load_plugins = false;
  opened_data* opened = nullptr;  // null: the data is opened anew
};

// `all`, or a copy with the plugins that the job names. The only function that decides whether
// plugins of a job are loaded. With `limits` none is: they are in `all` already.
expected<std::shared_ptr<const tables>, diagnostics> with_plugins(const job_text& what, std::shared_ptr<const tables> all);

using job_adjustment = std::function<void(job_spec&, std::vector<node_spec>&)>;

// `all`: the initial tables; plugins that the job names are added to a copy. `nodes` empty: one
// node "local" with the job's devices, which this process must be able to use. `adjust`: changes
// the specification and the nodes before anything is built from them.
expected<std::shared_ptr<prepared_job>, diagnostics> prepare_text(const job_text& what, std::shared_ptr<const tables> all,
                                                                  std::vector<node_spec> nodes = {},
                                                                  const job_adjustment& adjust = {});

}  // namespace troupe
