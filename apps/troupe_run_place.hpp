// Where the files of a run go.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/troupe_output.hpp"
#include "runtime/node/runs/lock_wait.hpp"

namespace CLI {
class App;
}

namespace troupe {

void new_run_options(CLI::App& c, bool& no_run);  // --no-run, and that --run-dir (of job_options) is for the new run, too

// The folder of runs; empty: no run folder is made (--no-run, TROUPE_RUNS=off).
std::filesystem::path runs_folder(const std::string& run_dir, bool no_run);
// Waits for locks of other processes tell the user on stderr.
lock_patience noticed_on(const output& out);
// The folders of checkpoints that runs of this job have left.
std::vector<std::string> checkpoint_folders_of(const std::filesystem::path& runs, const std::string& job);

}  // namespace troupe
