// Runs in place of files. Where a command takes a job file, weights, a checkpoint or a net, a user
// may name a run: by its number, its name or its folder ("7", "7-lenet", "lenet", "last"). A file
// of that name goes first.
// Errors: values.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "apps/commands/job.hpp"
#include "runtime/node/runs/lock_wait.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace CLI {
class App;
}

namespace troupe {

// The folder of the run that `word` names; empty: `word` is a file, or a path, whose reader reports
// that nothing is there. An error if `word` is no path and names neither file nor run. `run_dir`:
// folder of runs; empty: $TROUPE_RUNS or runs.
expected<std::filesystem::path, record_error> run_named(const std::string& word, const std::string& run_dir);

// If JOB is a run: sets `file` to its job file, `run` to its folder, and loads plugins only with
// --load-plugins.
expected<void, record_error> find_job(job_arguments& a);

// The newest valid checkpoint of a run; empty: none. Damaged ones are reported on stderr.
std::string checkpoint_of_run(const std::filesystem::path& folder, const run_info& r, const output& out);

// The weights of a run: those of the best evaluation, or the last; a run that has not reached its
// end may have only a checkpoint. Tells on stderr which it is, unless the run is done.
expected<std::string, record_error> weights_of_run(const std::filesystem::path& folder, const output& out);

// The weights file of --weights: `given` is a file, or names a run. Empty: the weights of the run
// that JOB names; if JOB is a file, an error.
expected<std::string, record_error> weights_file(const job_arguments& a, const std::string& given, const output& out);

// The checkpoint of --resume: a file, the newest in a folder, or the newest of a run.
expected<std::string, record_error> checkpoint_file(const job_arguments& a, const std::string& given, const output& out);

// --- where the files of a new run go
void new_run_options(CLI::App& c, bool& no_run);  // --no-run, and that --run-dir (of job_options) is for the new run, too

// The folder of runs; empty: no run folder is made (--no-run, TROUPE_RUNS=off).
std::filesystem::path runs_folder(const std::string& run_dir, bool no_run);
// Waits for locks of other processes tell the user on stderr.
lock_patience noticed_on(const output& out);
// The folders of checkpoints that runs of this job have left.
std::vector<std::string> checkpoint_folders_of(const std::filesystem::path& runs, const std::string& job);

}  // namespace troupe
