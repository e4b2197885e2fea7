// Turns command-line arguments into a prepared job, and transfers state between jobs and files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/job_head.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/role.hpp"

namespace troupe {

// Arguments of every command that takes a job.
struct job_arguments {
  std::string file;
  std::vector<std::string> overrides;  // --set
  bool json = false;
  bool load_plugins = true;  // false: the user did not name `file` as a job file, nor gave --load-plugins
  // Of find_job() (named_run.hpp), which lets the user name a run instead of a file.
  std::string run_dir;       // --run-dir; empty: $TROUPE_RUNS or runs
  bool load_of_run = false;  // --load-plugins
  std::string run;           // folder of the run that JOB names; empty: JOB is a file
};

// Reads the job file, loads its plugins and validates everything. Does not run the job. `nodes`: as
// in a cluster file; empty: embedded.
expected<std::shared_ptr<prepared_job>, diagnostics> load_job(const job_arguments& a, const std::vector<node_spec>& nodes = {});
// Also refuses a job that needs more memory than this machine has; for jobs that train in this
// process.
expected<std::shared_ptr<prepared_job>, diagnostics> load_job_to_train(const job_arguments& a);

// Sets the weights that the job starts from. Returns the step that the file's metadata has (0:
// none). Errors name the file.
expected<std::uint64_t, record_error> begin_from_weights(prepared_job& j, const std::string& file);
// Resolves the path of a checkpoint, or of a folder of checkpoints: there, the newest valid one;
// newer damaged ones are reported on stderr. A path that is not a folder is returned without
// reading it.
expected<std::string, record_error> checkpoint_at(const std::string& path, const output& out);
// Loads a checkpoint to continue from. Refuses one that would not continue bit for bit.
expected<void, record_error> resume_from(prepared_job& j, const std::string& file, const std::string& numerics,
                                         const std::vector<std::string>& overrides);

expected<void, record_error> save_weights(const prepared_job& j, const named_tensors& named, std::uint64_t step,
                                          const std::string& file);
expected<void, record_error> save_checkpoint_file(const prepared_job& j, const store_effect& s, const std::string& numerics,
                                                  const std::string& file);

// Checks before training whether `file` can be written.
expected<void> check_writable_file(const std::string& file);
// Reports a file that cannot be used as wrong usage; returns the exit code.
int wrong_file(const output& out, const record_error& e);

}  // namespace troupe
