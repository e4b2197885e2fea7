// What the page shows of run folders (runtime/node/runs/run_info.hpp): curves from metrics.csv,
// settings from job.toml. The text of responses, as JSON.
// Errors: the text "null" for a run that is missing or cannot be read.  Threads: functions without
// state; they read files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace troupe {

inline constexpr std::size_t max_runs_listed = 200;

// {"runs":[{"folder":"7-lenet", ...}]}: the newest runs of a folder, the newest first. Members as
// in run.json.
std::string page_runs(const std::filesystem::path& runs);
// {"run":{...}, "curves":{"loss":[[steps],[values]], ...}, "keys":{"train.dynamics.lr":"0.01",
// ...}}. `name`: of the folder in `runs`.
std::string page_run(const std::filesystem::path& runs, const std::string& name);

}  // namespace troupe
