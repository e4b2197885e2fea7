// `troupe train JOB`: trains in this process; Ctrl-C stops the job with a checkpoint.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/cli/command.hpp"
#include "apps/commands/named_run.hpp"
#include "apps/commands/train/head.hpp"
#include "apps/commands/train/run_reporter.hpp"
#include "apps/commands/train/train.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/data/source.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/http/server.hpp"
#include "runtime/record/checkpoint_home.hpp"

namespace troupe {
namespace {

std::string checkpoint_path(const train_arguments& a, const prepared_job& j) {
  return a.checkpoint.empty() ? j.spec.name + ".checkpoint.safetensors" : a.checkpoint;
}

// True if checkpoints go to the run folder or to the job's folder of checkpoints. Then the current
// folder may be read-only.
bool has_folder_for_checkpoints(const train_arguments& a, const prepared_job& j) {
  return a.checkpoint.empty() && (!j.spec.checkpoint.dir.empty() || !runs_folder(a.run_dir, a.no_run).empty());
}

// With resume = "auto": the newest checkpoint of a job of this name, also of its runs. Empty if
// there is none, or if the command line names weights or a checkpoint.
std::string newest_of(const train_arguments& a, const prepared_job& j, const output& out) {
  const auto& c = j.spec.checkpoint;
  if (c.resume != "auto" || !a.resume.empty() || !a.weights.empty()) return {};
  std::error_code ec;
  if (!a.checkpoint.empty()) return std::filesystem::is_regular_file(a.checkpoint, ec) ? a.checkpoint : std::string();
  auto folders = checkpoint_folders_of(runs_folder(a.run_dir, a.no_run), j.spec.name);
  if (!c.dir.empty())
    for (auto& f : runs_of(checkpoint_home(c.dir, j.spec.name))) folders.push_back(std::move(f));
  const auto found = newest_in(folders);
  for (const auto& bad : found.refused) out.remark("skipped: " + bad.to_string());
  if (found.newest) return found.file;
  const auto file = checkpoint_path(a, j);
  return c.dir.empty() && std::filesystem::is_regular_file(file, ec) ? file : std::string();
}

// Creates the folder for this run's checkpoints, if the job names one, before training starts.
// Returns an exit code if that fails.
std::optional<int> make_checkpoint_folder(const train_arguments& a, const prepared_job& j, std::string& folder, const output& out) {
  const auto& c = j.spec.checkpoint;
  if (c.dir.empty() || !a.checkpoint.empty()) return std::nullopt;
  auto made = folder_for_checkpoints(c.dir, j.spec.name);
  if (!made)
    return out.wrong(diagnostics{{position_of(c.key_at, "dir", c.at), "[checkpoint]: 'dir': " + made.error().to_string()}});
  folder = *std::move(made);
  return std::nullopt;
}

// Creates the run folder, unless none is wanted. Returns an exit code if that fails.
std::optional<int> make_run_folder(const train_arguments& a, training& t, const output& out) {
  namespace fs = std::filesystem;
  const auto runs = runs_folder(a.run_dir, a.no_run);
  if (runs.empty()) return std::nullopt;
  prepare_for_run_folder(*t.job);
  auto info = facts_of_run(*t.job, numerics_of(t.devices));
  info.overrides = a.overrides;
  const auto& own = a.checkpoint.empty() ? t.checkpoint_folder : a.checkpoint;
  if (!own.empty()) info.checkpoints = fs::absolute(own).string();
  if (const auto& file = a.resume.empty() ? a.weights : a.resume; !file.empty()) {
    info.begun_from = fs::absolute(file).string();
    info.begun_from_checkpoint = !a.resume.empty();
  }
  if (t.job->before) t.job->before->best.reset();  // of the run that wrote the checkpoint: its folder has the weights
  auto made = run_recorder::create(runs, t.job, std::move(info), resolved_job_text(*t.job), noticed_on(out));
  if (!made)
    return out.wrong(made.error().file, made.error().message + "; --run-dir DIR names another folder of runs, --no-run makes none");
  t.record = std::move(*made);
  if (own.empty()) t.checkpoint_folder = t.record->checkpoints().string();
  return std::nullopt;
}

// The job as a replay must prepare it again. Nullopt: neither post-mortem nor recording is wanted.
std::optional<job_origin> origin_of(const train_arguments& a, const prepared_job& j, const run_recorder* record) {
  if (a.mortem == "none" && !(record && j.spec.record)) return std::nullopt;
  auto text = read_config_text(a.file);
  if (!text) return std::nullopt;  // was deleted after it had been read
  job_origin o;
  const auto beside = record ? record->folder() : std::filesystem::path(checkpoint_path(a, j)).parent_path();
  if (a.mortem != "none") o.home = a.mortem.empty() ? beside / "post-mortem" : std::filesystem::path(a.mortem);
  if (record) o.recordings = record->folder() / "recording";
  o.what = {*std::move(text), a.file, a.overrides};
  return o;
}

// The commands that the summary suggests.
std::vector<std::string> next_commands(const train_arguments& a, const prepared_job& j, const run_recorder* record) {
  const bool text = !j.data->symbols().empty();
  if (record)
    return {"troupe plot " + record->word(),
            text ? "troupe sample " + record->words() : "troupe predict " + record->words() + " INPUT"};
  if (a.out.empty()) return {};
  return {"troupe test " + a.file + " --weights " + a.out};
}

std::optional<beginning_file> beginning_of(const train_arguments& a, const prepared_job& j) {
  if (!a.resume.empty()) return beginning_file(plan_beginning::with::checkpoint, a.resume, j.first_step);
  if (!a.weights.empty()) return beginning_file(plan_beginning::with::weights, a.weights, 0);
  return std::nullopt;
}

int run_train(const train_arguments& given, const output& out) {
  if (!given.weights.empty() && !given.resume.empty()) return out.wrong("--resume", "give --weights or --resume, not both");
  auto a = given;
  if (a.resume == "auto") {
    a.resume.clear();
    a.overrides.emplace_back("checkpoint.resume=auto");
  }
  if (!a.match.empty()) a.overrides.push_back("checkpoint.match=" + a.match);
  if (a.record) a.overrides.emplace_back("job.record=true");
  auto resume = checkpoint_file(a, a.resume, out);
  if (!resume) return wrong_file(out, resume.error());
  a.resume = *std::move(resume);
  if (!a.weights.empty()) {
    auto weights = weights_file(a, a.weights, out);
    if (!weights) return wrong_file(out, weights.error());
    a.weights = *std::move(weights);
  }
  if (!a.cluster.empty()) return run_train_cluster(a, out);
  if (!a.machine.empty()) return out.wrong("--machine", "compares the reducers of a cluster: give --cluster FILE, too");
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  auto j = *loaded;
  for (const auto& file : {a.out, a.trace, has_folder_for_checkpoints(a, *j) ? std::string() : checkpoint_path(a, *j)})
    if (const auto fine = file.empty() ? expected<void>() : check_writable_file(file); !fine)
      return out.wrong(file, fine.error().text);
  const auto devices = make_devices(j->nodes.front().devices);
  const auto found = newest_of(a, *j, out);
  if (!found.empty()) a.resume = found;
  if (!a.weights.empty()) {
    auto from = begin_from_weights(*j, a.weights);
    if (!from) return wrong_file(out, from.error());
  }
  if (!a.resume.empty()) {
    if (auto ok = resume_from(*j, a.resume, numerics_of(devices), a.overrides); !ok) return wrong_file(out, ok.error());
    if (!found.empty()) j->before->notes.push_back("continues from " + found + ", step " + std::to_string(j->first_step));
  }
  training t{std::move(j), devices, {}, {}};
  if (auto wrong = check_addresses(a, out)) return *wrong;
  if (auto wrong = make_checkpoint_folder(a, *t.job, t.checkpoint_folder, out)) return *wrong;
  if (auto wrong = make_run_folder(a, t, out)) return *wrong;
  if (t.job->spec.record && !t.record)
    return out.wrong(a.file, "[job] record = true needs a run folder: leave out --no-run, and set TROUPE_RUNS to a folder");
  return train_here(std::move(t), a, out);
}

void add_options(CLI::App& c, train_arguments& a) {
  job_options(c, a);
  file_option(c, "--out", a.out, "Write the final weights to this file (safetensors)");
  file_option(c, "--weights", a.weights, "Start from these weights (safetensors, or of this run) at step 0");
  c.add_option("--match", a.match, "With --weights: require all parameters, or load those that match by name and shape")
      ->option_text("all|names")
      ->check(CLI::IsMember({"all", "names"}));
  file_option(c, "--resume", a.resume,
              "Resume from a checkpoint, or from the newest in a folder or of a run: weights, state of the update rule,\nstep; "
              "\"auto\": the job's "
              "newest, if there is one");
  file_option(c, "--checkpoint", a.checkpoint, "Write checkpoints to this file (default: to the run folder)");
  file_option(c, "--post-mortem", a.mortem,
              "Folder for the post-mortem of a failed run (default: post-mortem/ in the run folder);\n\"none\": do not write one");
  file_option(c, "--cluster", a.cluster, "Submit the job to this cluster and follow it; Ctrl-C detaches");
  file_option(c, "--machine", a.machine,
              "With --cluster: choose reducer \"auto\" by measured rates, a file of `troupe doctor --out`");
  new_run_options(c, a.no_run);
  c.add_flag("--record", a.record, "Record the messages of all roles, for `troupe replay`");
  c.add_option("--metrics", a.metrics, "Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; 0: a free port")
      ->option_text("[HOST:]PORT");
  file_option(c, "--trace", a.trace, "Write what the roles do to this file, a trace for ui.perfetto.dev");
  c.add_option_function<std::string>(
       "--page", [&a](const std::string& where) { a.page = where; },
       "Serve a page at http://127.0.0.1:PORT/ to watch and steer the run in a browser; without PORT or\nwith 0: a free port")
      ->expected(0, 1)
      ->default_str("0")
      ->option_text("[[HOST:]PORT]");
  threads_option(c, a.threads, "one per core that the process may use");
}

}  // namespace

std::optional<int> check_addresses(const train_arguments& a, const output& out) {
  struct served {
    const char* option;
    const std::string& where;
    const char* what;
  };
  for (const auto& [option, where, what] :
       {served{"--metrics", a.metrics, "metrics of a run are served"}, served{"--page", a.page, "the page of a run is served"}}) {
    if (where.empty()) continue;
    const auto at = http::loopback_address(where, what);
    if (!at) return out.wrong(option, at.error().message);
    if (const auto fine = http::check_free(*at); !fine) return out.wrong(option, fine.error().message);
  }
  return std::nullopt;
}

int train_here(training t, const train_arguments& a, const output& out) {
  auto& j = t.job;
  const auto folder = t.record ? t.record->folder().string() : std::string();
  const auto head = run_head(*j, {t.devices, a.threads, folder, a.resume.empty() ? a.weights : a.resume});
  auto origin = origin_of(a, *j, t.record.get());
  run_reporter announced(j, out, std::move(t.devices), a.threads, std::move(origin), beginning_of(a, *j), a.trace);
  announced.checkpoint_file = checkpoint_path(a, *j);
  announced.checkpoint_folder = std::move(t.checkpoint_folder);
  announced.weights_file = a.out;
  announced.next = next_commands(a, *j, t.record.get());
  announced.record = std::move(t.record);
  announced.head(head);
  const auto not_served = [&](const char* option, const coded_error& why) {
    if (announced.record)
      static_cast<void>(announced.record->finish({"failed", j->first_step, {}, why.message, {}}));  // without weights to write
    return out.wrong(option, why.message);
  };
  if (!a.metrics.empty())
    if (const auto served = announced.serve_metrics(a.metrics); !served) return not_served("--metrics", served.error());
  if (!a.page.empty()) {
    const auto served = announced.serve_page(a.page);
    if (!served) return not_served("--page", served.error());
    announced.head({{"page", *served}});
    if (out.json()) out.remark("page: " + *served);
  }
  return announced.finish();
}

cli_command train_command() {
  return make_command<train_arguments>(
      "train", "Train a job, in this process or on a cluster",
      "  troupe train configs/jobs/lenet_fashion.toml --out lenet.safetensors\n"
      "  troupe train job.toml --set train.dynamics.lr=0.02 --set pipeline.sub_solvers=2 --threads 2\n"
      "  troupe train job.toml --resume job.checkpoint.safetensors\n"
      "Ctrl-C (or SIGTERM, SIGHUP) stops at the next step and saves a checkpoint; a second one, more than 2 s later, ends the\n"
      "program at once. The exit code is then 130 (143, 129).\n"
      "weights_sha256, printed at the end, hashes the values of all weights in layer order, so equal weights have equal hashes.\n"
      "It differs from `sha256sum FILE`, which hashes the file's bytes, and from `sha256` in the file's metadata, which hashes\n"
      "its header.",
      add_options, run_train);
}

}  // namespace troupe
