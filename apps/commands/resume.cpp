// `troupe resume [RUN]`: continues a run that has not reached its end, in its own folder.
#include <CLI/CLI.hpp>
#include <filesystem>

#include "apps/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/train.hpp"
#include "apps/troupe_run_place.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

struct resume_arguments {
  std::string run;  // empty: the newest that is not done
  bool load_plugins = false;
  train_arguments train;
};

struct found_run {
  fs::path folder;
  run_info info;
};

bool can_go_on(const run_info& r) { return r.state != "done" && r.state != "running"; }

// The run that is to be continued. An error says why there is none.
expected<found_run, record_error> run_to_resume(const fs::path& runs, const std::string& word) {
  if (!word.empty()) {
    auto folder = find_run(runs, word);
    if (!folder) return unexpected(std::move(folder).error());
    auto read = read_run_info(*folder);
    if (!read) return unexpected(std::move(read).error());
    auto& r = *read;
    if (r.state == "running") return unexpected(record_error{folder->string(), {}, "a running process writes this run"});
    if (r.state == "done")
      return unexpected(record_error{folder->string(),
                                     {},
                                     "the run is done, at step " + std::to_string(r.steps) +
                                         "; `troupe train JOB --weights FILE` starts a new run from its weights"});
    return found_run{*folder, std::move(r)};
  }
  auto folders = run_folders(runs);
  for (auto f = folders.rbegin(); f != folders.rend(); ++f) {
    auto read = read_run_info(*f);
    if (read && can_go_on(*read)) return found_run{*f, std::move(*read)};
  }
  return unexpected(record_error{runs.string(), {}, "no run in this folder is unfinished; `troupe runs` lists them"});
}

// The newest valid checkpoint of the run, or the file that it began with.
void beginning_for(const run_info& r, train_arguments& a, const output& out) {
  std::error_code ec;
  if (fs::is_directory(r.checkpoints, ec)) {
    const auto found = load_newest_checkpoint(r.checkpoints);
    for (const auto& bad : found.refused) out.remark("skipped: " + bad.to_string());
    if (found.newest) return void(a.resume = found.file);
  } else if (fs::is_regular_file(r.checkpoints, ec)) {
    return void(a.resume = r.checkpoints);
  }
  (r.begun_from_checkpoint ? a.resume : a.weights) = r.begun_from;
}

int run_resume(const resume_arguments& given, const output& out) {
  auto a = given.train;
  const auto runs = runs_folder(a.run_dir, false);
  if (runs.empty()) return out.wrong("resume", "TROUPE_RUNS=off: --run-dir DIR names the folder of runs");
  auto found = run_to_resume(runs, given.run);
  if (!found) return wrong_file(out, found.error());
  auto& [folder, info] = *found;
  a.file = run_job_file(folder).string();
  a.load_plugins = given.load_plugins;
  beginning_for(info, a, out);
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  training t{*loaded, {}, {}, {}};
  t.devices = make_devices(t.job->nodes.front().devices);
  if (!a.weights.empty()) {
    auto from = begin_from_weights(*t.job, a.weights);
    if (!from) return wrong_file(out, from.error());
  }
  if (!a.resume.empty())
    if (auto ok = resume_from(*t.job, a.resume, numerics_of(t.devices), a.overrides); !ok) return wrong_file(out, ok.error());
  if (fs::path(info.checkpoints).extension() == ".safetensors")
    a.checkpoint = info.checkpoints;
  else
    t.checkpoint_folder = info.checkpoints;
  info.last_step = t.job->last_step;
  prepare_for_run_folder(*t.job);
  auto record = run_recorder::resume(folder, t.job, info, noticed_on(out));
  if (!record) return wrong_file(out, record.error());
  t.record = std::move(*record);
  return train_here(std::move(t), a, out);
}

void add_resume_options(CLI::App& c, resume_arguments& a) {
  c.add_option("RUN", a.run, "Number, name or folder of the run (default: the newest that is not done)");
  c.add_option("--set", a.train.overrides, "Override a key of the run's job.toml, as `troupe train` does")
      ->option_text("KEY=VALUE");
  file_option(c, "--out", a.train.out, "Write the final weights to this file too (safetensors)");
  file_option(c, "--run-dir", a.train.run_dir, "Folder of runs (default: $TROUPE_RUNS, or runs/)");
  c.add_option("--metrics", a.train.metrics, "Serve Prometheus metrics, as `troupe train` does")->option_text("[HOST:]PORT");
  load_plugins_option(c, a.load_plugins, "the run's job.toml");
  threads_option(c, a.train.threads, "one per core");
  json_option(c);
}

}  // namespace

cli_command resume_run_command() {
  return make_command<resume_arguments>("resume", "Continue a run that was stopped, killed or has failed",
                                        "  troupe resume                      # the newest unfinished run\n"
                                        "  troupe resume 7\n"
                                        "  troupe resume lenet-fashion --set checkpoint.every=1min\n"
                                        "The run continues from its newest checkpoint, or from its beginning, in its own folder. "
                                        "If it is deterministic, its weights\n"
                                        "are those of a run that was never interrupted.",
                                        add_resume_options, run_resume);
}

}  // namespace troupe
