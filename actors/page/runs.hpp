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

// {"runs":[{"folder":"7-lenet", ...}],"total":312}: runs of a folder, the newest first, without the
// `offset` newest ones; at most `limit` and `max_runs_listed`. Members as in run.json. Those whose
// run.json cannot be read are left out; `total` counts them.
std::string page_runs(const std::filesystem::path& runs, std::size_t offset = 0, std::size_t limit = max_runs_listed);
// {"run":{...}, "curves":{"loss":{"x":[...],"mean":[...],"low":[...],"high":[...]}, ...},
// "keys":{"train.dynamics.lr":"0.01", ...}}. `name`: of the folder in `runs`. x: steps. A long
// curve has one element for several steps: their mean, lowest and highest value.
std::string page_run(const std::filesystem::path& runs, const std::string& name);

}  // namespace troupe
