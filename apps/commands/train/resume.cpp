// `troupe resume [RUN]`: continues a run that has not reached its end, in its own folder.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/named_run.hpp"
#include "apps/commands/train/train.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/shell_word.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

// What `troupe resume RUN` needs so that the run goes on, for conditions of [train.finish] that
// have ended it: "`troupe resume 7 --set train.finish.epochs=4` extends it". Steps and epochs that
// bound the job are doubled, all that do; patience, target_accuracy and time, which end a job at a
// step that is not known in advance, are named. `resume`: the command without --set. `overrides`:
// of the command; they stay in it.
std::string how_to_extend(const run_info& run, const prepared_job& j, const std::string& resume,
                          const std::vector<std::string>& overrides) {
  const auto& f = j.spec.train.finish;
  const auto per_epoch = j.steps_per_epoch;
  std::vector<std::pair<std::string, std::uint64_t>> later;
  const auto reached = [&](const std::optional<std::int64_t>& most, std::uint64_t steps_of_one) {
    return most && steps_of_one > 0 && static_cast<std::uint64_t>(*most) <= run.steps / steps_of_one;
  };
  if (reached(f.epochs, per_epoch)) later.emplace_back("train.finish.epochs=", 2 * ((run.steps + per_epoch - 1) / per_epoch));
  if (reached(f.steps, 1)) later.emplace_back("train.finish.steps=", 2 * run.steps);
  auto command = "`" + resume;
  for (const auto& o : overrides)
    if (std::none_of(later.begin(), later.end(), [&](const auto& l) { return o.starts_with(l.first); }))
      command += " --set " + shell_word(o);
  for (const auto& [key, value] : later) command += " --set " + key + std::to_string(value);
  if (!later.empty()) return command + "` extends it";
  std::string ended = "[train.finish] of its job.toml ended it";
  if (f.patience) ended += ", with patience = " + std::to_string(*f.patience);
  if (f.target_accuracy) ended += ", with target_accuracy = " + number_text(*f.target_accuracy);
  if (f.seconds) ended += ", with time = \"" + number_text(*f.seconds) + "s\"";
  return ended + "; " + command + " --set train.finish.KEY=VALUE` with a later end extends it";
}

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
    return found_run{*folder, std::move(r)};
  }
  if (auto readable = check_runs_folder(runs); !readable) return unexpected(std::move(readable).error());
  auto folders = run_folders(runs);
  for (auto f = folders.rbegin(); f != folders.rend(); ++f) {
    auto read = read_run_info(*f);
    if (read && can_go_on(*read)) return found_run{*f, std::move(*read)};
  }
  return unexpected(record_error{runs.string(), {}, "no run in this folder is unfinished; `troupe runs` lists them"});
}

// The newest valid checkpoint of the run, or the file that it began with. Returns false if the run
// has no checkpoint.
bool beginning_for(const found_run& found, train_arguments& a, const output& out) {
  const auto& r = found.info;
  a.resume = checkpoint_of_run(found.folder, r, out);
  if (!a.resume.empty()) return true;
  if (r.begun_from_checkpoint)
    a.resume = r.begun_from;
  else
    a.weights = r.begun_from;
  return false;
}

record_error run_is_done(const found_run& run, const std::string& instead) {
  return {run.folder.string(), {}, "the run is done, at step " + std::to_string(run.info.steps) + "; " + instead};
}

// The command as the user gave it, without --set.
std::string command_of(const resume_arguments& given) {
  auto text = "troupe resume " + shell_word(given.run);
  if (!given.train.run_dir.empty()) text += " --run-dir " + shell_word(given.train.run_dir);
  if (given.load_plugins) text += " --load-plugins";
  return text;
}

int run_resume(const resume_arguments& given, const output& out) {
  auto a = given.train;
  const auto runs = runs_folder(a.run_dir, false);
  if (runs.empty()) return out.wrong("resume", "TROUPE_RUNS=off: --run-dir DIR names the folder of runs");
  auto found = run_to_resume(runs, given.run);
  if (!found) return wrong_file(out, found.error());
  auto& [folder, info] = *found;
  info.checkpoints = fs::absolute(checkpoints_of_run(folder, info)).string();  // also where they are written from here on
  a.file = run_job_file(folder).string();
  a.load_plugins = given.load_plugins;
  const bool done = info.state == "done";
  const bool has_checkpoint = beginning_for(*found, a, out);
  if (done && !has_checkpoint)
    return wrong_file(
        out, run_is_done(*found, "it has no checkpoint; `troupe train JOB --weights FILE` starts a new run from its weights"));
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  const auto last = (*loaded)->last_step;
  if (done && (a.overrides.empty() || (last > 0 && last <= info.steps)))
    return wrong_file(out, run_is_done(*found, how_to_extend(info, **loaded, command_of(given), a.overrides)));
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
  if (const auto wrong = check_addresses(a, out)) return *wrong;
  info.last_step = t.job->last_step;
  info.overrides.insert(info.overrides.end(), a.overrides.begin(), a.overrides.end());
  prepare_for_run_folder(*t.job);
  continue_best(folder, info, *t.job);
  auto record = run_recorder::resume(folder, t.job, info, noticed_on(out));
  if (!record) return wrong_file(out, record.error());
  t.record = std::move(*record);
  if (!a.overrides.empty())  // the folder is locked now
    if (const auto written = write_text(run_job_file(folder), resolved_job_text(*t.job)); !written) {
      static_cast<void>(t.record->finish({"failed", t.job->first_step, {}, written.error().to_string(), {}}));
      return wrong_file(out, written.error());
    }
  return train_here(std::move(t), a, out);
}

void add_resume_options(CLI::App& c, resume_arguments& a) {
  c.add_option("RUN", a.run, "Number, name or folder of the run (default: the newest that is not done)");
  c.add_option("--set", a.train.overrides, "Override a key of the run's job.toml from here on, and write it there")
      ->option_text("KEY=VALUE");
  file_option(c, "--out", a.train.out, "Write the final weights to this file too (safetensors)");
  runs_folder_option(c, a.train.run_dir);
  c.add_option("--metrics", a.train.metrics, "Serve Prometheus metrics, as `troupe train` does")->option_text("[HOST:]PORT");
  load_plugins_option(c, a.load_plugins, "the run's job.toml");
  threads_option(c, a.train.threads, "one per core that the process may use");
  json_option(c);
}

}  // namespace

cli_command resume_run_command() {
  return make_command<resume_arguments>("resume",
                                        "Continue a run that was stopped, killed or has failed, or extend one that is done",
                                        "  troupe resume                      # the newest unfinished run\n"
                                        "  troupe resume 7\n"
                                        "  troupe resume lenet-fashion --set checkpoint.every=1min\n"
                                        "  troupe resume 7 --set train.finish.steps=80000   # a run that is done goes on\n"
                                        "The run continues from its newest checkpoint, or from its beginning, in its own folder. "
                                        "If it is deterministic, its weights\n"
                                        "are those of a run that was never interrupted.",
                                        add_resume_options, run_resume);
}

}  // namespace troupe
