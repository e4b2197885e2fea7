// Where the files of a run go: the folder of runs, and what a run folder needs of a job.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"

namespace CLI {
class App;
}

namespace troupe {

void run_options(CLI::App& c, std::string& run_dir, bool& no_run);  // --run-dir and --no-run

// The folder of runs; empty: no run folder is made (--no-run, TROUPE_RUNS=off).
std::filesystem::path runs_folder(const std::string& run_dir, bool no_run);
// The folders of checkpoints that runs of this job have left.
std::vector<std::string> checkpoint_folders_of(const std::filesystem::path& runs, const std::string& job);
// A run with a folder writes a checkpoint every 5 minutes unless the job says otherwise.
void checkpoint_by_default(prepared_job& j);

}  // namespace troupe
