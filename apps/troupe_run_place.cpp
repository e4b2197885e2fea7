#include "apps/troupe_run_place.hpp"

#include <CLI/CLI.hpp>

#include "apps/command.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
void new_run_options(CLI::App& c, bool& no_run) {
  c.get_option("--run-dir")->description("Make the run's folder NUMBER-NAME in this folder (default: $TROUPE_RUNS, or runs/)");
  c.add_flag("--no-run", no_run, "Make no run folder");
}

std::filesystem::path runs_folder(const std::string& run_dir, bool no_run) {
  if (no_run) return {};
  return run_dir.empty() ? default_runs_folder() : std::filesystem::path(run_dir);
}

lock_patience noticed_on(const output& out) {
  return {[&out](const std::string& text) { out.remark(text); }};
}

std::vector<std::string> checkpoint_folders_of(const std::filesystem::path& runs, const std::string& job) {
  std::vector<std::string> list;
  if (runs.empty()) return list;
  for (const auto& folder : run_folders(runs)) {
    const auto read = read_run_info(folder);
    if (read && read->name == job) list.push_back((folder / "checkpoints").string());
  }
  return list;
}

}  // namespace troupe
