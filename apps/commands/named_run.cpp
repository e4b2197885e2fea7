#include "apps/commands/named_run.hpp"

#include <CLI/CLI.hpp>

#include "apps/cli/command.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool has_extension_of_file(const std::string& word) {
  for (const char* extension : {".toml", ".safetensors", ".troupe"})
    if (word.ends_with(extension)) return true;
  return false;
}

fs::path folder_of_runs(const std::string& run_dir) {
  const auto usual = run_dir.empty() ? default_runs_folder() : fs::path(run_dir);
  return usual.empty() ? fs::path("runs") : usual;  // TROUPE_RUNS=off concerns only new runs
}

}  // namespace

expected<fs::path, record_error> run_named(const std::string& word, const std::string& run_dir) {
  std::error_code ec;
  const bool exists = fs::exists(word, ec), folder = fs::is_directory(word, ec);
  if (word.empty() || (exists && !folder) || has_extension_of_file(word)) return fs::path();
  auto found = find_run(folder_of_runs(run_dir), word);
  if (found || !(exists || word.find('/') != std::string::npos)) {
    if (!found) found.error().message = "there is no file " + in_quotes(word) + ", and no run: " + found.error().message;
    return found;
  }
  return fs::path();
}

expected<void, record_error> find_job(job_arguments& a) {
  const auto found = run_named(a.file, a.run_dir);
  if (!found) return unexpected(found.error());
  if (found->empty()) return {};
  a.run = found->string();
  a.file = run_job_file(*found).string();
  a.load_plugins = a.load_of_run;
  return {};
}

std::string checkpoint_of_run(const fs::path& folder, const run_info& r, const output& out) {
  std::error_code ec;
  const auto at = checkpoints_of_run(folder, r);
  if (fs::is_regular_file(at, ec)) return at.string();
  if (!fs::is_directory(at, ec)) return {};
  const auto found = load_newest_checkpoint(at.string());
  for (const auto& bad : found.refused) out.remark("skipped: " + bad.to_string());
  return found.newest ? found.file : std::string();
}

expected<std::string, record_error> weights_of_run(const fs::path& folder, const output& out) {
  const auto info = read_run_info(folder);
  std::string file, what = "best weights so far";
  std::error_code ec;
  const bool done = info && info->state == "done";
  if (fs::is_regular_file(folder / "best.safetensors", ec))
    file = (folder / "best.safetensors").string();
  else if ((done || !info) && fs::is_regular_file(folder / "last.safetensors", ec))  // else of an end that was extended
    file = (folder / "last.safetensors").string();
  if (file.empty() && info) {
    file = checkpoint_of_run(folder, *info, out);
    what = "newest checkpoint";
  }
  if (file.empty() && !info) return unexpected(info.error());
  if (file.empty())
    return unexpected(
        record_error{folder.string(), {}, "the run has no weights and no checkpoint yet; --weights FILE names others"});
  if (info && !done)
    out.remark("run " + std::to_string(info->number) + " is not done (" + info->state + " at step " + with_commas(info->steps) +
               (info->last_step > 0 ? " of " + with_commas(info->last_step) : "") + "): uses its " + what + ", " + file);
  return file;
}

expected<std::string, record_error> weights_file(const job_arguments& a, const std::string& given, const output& out) {
  if (!given.empty()) {
    const auto run = run_named(given, a.run_dir);
    if (!run) return unexpected(run.error());
    return run->empty() ? expected<std::string, record_error>(given) : weights_of_run(*run, out);
  }
  if (!a.run.empty()) return weights_of_run(a.run, out);
  if (a.file.ends_with(".safetensors"))
    return unexpected(
        record_error{a.file, {}, "these are weights, without their net: name the run, or the job file with --weights " + a.file});
  return unexpected(record_error{
      a.file, {}, "a job file has no weights: add --weights FILE, or name a run instead of the file (`troupe runs` lists them)"});
}

expected<std::string, record_error> checkpoint_file(const job_arguments& a, const std::string& given, const output& out) {
  const auto run = run_named(given, a.run_dir);
  if (!run) return unexpected(run.error());
  if (run->empty()) return checkpoint_at(given, out);
  const auto info = read_run_info(*run);
  if (!info) return unexpected(info.error());
  auto file = checkpoint_of_run(*run, *info, out);
  if (file.empty()) return unexpected(record_error{run->string(), {}, "the run has no checkpoint"});
  return file;
}

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
