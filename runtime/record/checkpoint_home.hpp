// Folders for checkpoints of jobs that name a folder ([checkpoint] dir), and the newest checkpoint
// of a job (resume = "auto").
//
//   DIR/NAME/RUN/checkpoint-<n>-step-<step>.safetensors
//
// NAME is the job's name as a path component. Every run has its own RUN, so that two jobs of one
// name never remove each other's files. A job that resumes searches all of them. Troupe never
// removes the files that a run has left.
// Errors: values.  Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

std::string path_word(const std::string& name);  // a job's name as a path component

std::string checkpoint_home(const std::string& dir, const std::string& job);  // DIR/NAME
// Creates a folder with a unique name for one run.
expected<std::string, record_error> new_run_folder(const std::string& home);
// The same for a job with [checkpoint] dir = `dir`; empty if `dir` is empty.
expected<std::string, record_error> folder_for_checkpoints(const std::string& dir, const std::string& job);
// An error if checkpoints of this job cannot be written there. Creates DIR/NAME.
expected<void> check_home(const std::string& dir, const std::string& job);

// The newest valid checkpoint in these run folders: the one written last. `refused`: newer ones
// that do not verify.
found_checkpoint newest_in(const std::vector<std::string>& folders);
// The run folders of a home.
std::vector<std::string> runs_of(const std::string& home);

}  // namespace troupe
