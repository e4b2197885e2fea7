// Where checkpoints of jobs lie that name a folder themselves ([checkpoint] dir), and which of them
// is the newest of a job (resume = "auto").
//
//   DIR/NAME/RUN/checkpoint-<n>-step-<step>.safetensors
//
// NAME is the job's, as a part of a path. Every run has a RUN of its own, so that two jobs of one
// name never remove each other's files; whoever resumes looks into all of them. What a run has left
// stays until somebody removes it.
// Errors: values.  Threads: functions without state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/record/checkpoint.hpp"

namespace troupe {

std::string path_word(const std::string& name);  // a job's name as a part of a path

std::string checkpoint_home(const std::string& dir, const std::string& job);  // DIR/NAME
// A folder of its own for a run that nobody has named, made now.
std::variant<std::string, record_error> new_run_folder(const std::string& home);
// Why checkpoints of this job cannot be written there; empty: they can. Makes DIR/NAME.
std::string why_no_home(const std::string& dir, const std::string& job);

// The newest sound checkpoint in these folders of runs: the one written last. `refused` names newer
// ones that do not verify.
found_checkpoint newest_in(const std::vector<std::string>& folders);
// Those of a home.
std::vector<std::string> runs_of(const std::string& home);

}  // namespace troupe
