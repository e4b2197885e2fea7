// `troupe replay RUN`: runs a recorded job again, to a step, or message by message in a REPL.
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/control/client/recorded_files.hpp"
#include "actors/repl/repl.hpp"
#include "actors/repl/signals.hpp"
#include "apps/cli/command.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/look/recorded_plans.hpp"
#include "apps/commands/look/replay_console.hpp"
#include "apps/commands/look/runs.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using result_json = nlohmann::ordered_json;

struct replay_arguments {
  std::vector<std::string> runs;
  std::optional<std::uint64_t> to;
  std::optional<std::string> commands;
  std::string cluster, keep;
  bool repl = false, load_plugins = false;
  run_dir_argument run_dir;
};

// What the arguments name.
struct found_recordings {
  std::vector<std::string> folders;
  std::string weights_sha256;  // of the run's final weights; empty: not known
};

// Copies the recording of a job from the nodes of its cluster into `to`.
expected<found_recordings, record_error> copy_from_cluster(const replay_arguments& a, const fs::path& to, const output& out) {
  const auto wrong = [&](const std::string& why) { return unexpected(record_error{a.cluster, {}, why}); };
  std::uint32_t job = 0;
  const auto& word = a.runs.front();
  const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), job);
  if (a.runs.size() != 1 || bad != std::errc() || end != word.data() + word.size() || job == 0)
    return unexpected(record_error{word, {}, "with --cluster, give the number of one job, as `jobs` in the REPL lists it"});
  const auto cluster = read_cluster_file(a.cluster);
  if (!cluster) return wrong(all_of(cluster.error()).text);
  node_links nodes(*cluster, std::chrono::seconds(3));
  if (nodes.connected() == 0) return wrong("no node answers: " + nodes.troubles());
  const auto missing = copy_recording(nodes, job, to);
  if (!missing) return wrong(missing.error().text);
  for (const auto& node : *missing) out.remark(node);
  found_recordings f;
  for (const auto& n : nodes.nodes())
    for (const auto& job_folder : recordings_in(to / n.where.node)) f.folders.push_back(job_folder.string());
  if (f.folders.empty())
    return wrong("no node has a recording of job " + word +
                 (missing->empty() ? "; `troupe train --record` records a job" : " that can be read: " + missing->front()));
  return f;
}

expected<found_recordings, record_error> find_recordings(const replay_arguments& a) {
  found_recordings f;
  for (const auto& word : a.runs) {
    auto folders = fs::is_directory(word) ? recordings_in(word) : std::vector<fs::path>();
    if (folders.empty()) {
      const auto run = find_run(a.run_dir.folder(), word);
      if (!run && fs::is_directory(word)) return unexpected(record_error{word, {}, "no recording is in this folder"});
      if (!run) return unexpected(run.error());
      folders = recordings_in(*run / "recording");
      if (folders.empty())
        return unexpected(record_error{run->string(), {}, "this run was not recorded; `troupe train --record` records a run"});
      if (const auto info = read_run_info(*run)) f.weights_sha256 = info->weights_sha256;
    }
    for (const auto& x : folders) f.folders.push_back(x.string());
  }
  return f;
}

// Runs the plans of a recording and reports what happens.
class replay_report {
 public:
  replay_report(const output& out, device& dev) : out_(out), dev_(dev) {}

  // Returns the exit code of an error, 0 if there is none. `last`: the step after which the plan
  // ends. Ends early if nobody reads stdout any more.
  int play(recorded_plan& p, std::size_t number, std::optional<std::uint64_t> last) {
    if (const auto code = prepare_to_replay(p, dev_, out_); code != exit_done) return code;
    if (last) p.job->last_step = *last;
    out_.text("plan " + std::to_string(number) + " from step " + with_commas(p.job->first_step) + ", " + mode_text(*p.job) + "\n");
    const auto limits = limits_of_replay(p);
    for (const auto& l : limits) out_.remark(l);
    exact_ = limits.empty();
    auto player = make_player(p, dev_);
    if (last) player->leave_logs();
    weights_.clear();
    player->on_event = [&](role_id r, const event_effect& e) { handle_event(*p.job, r, e); };
    player->on_store = [&](const store_effect& s) { handle_store(s); };
    while (!stdout_unread() && player->step()) {
    }
    if (stdout_unread()) return exit_done;
    const auto end = player->end();
    for (const auto& f : end.failures) failed(f.step, "role " + p.job->plan[f.who].name + ": " + f.text);
    delivered_ += end.delivered;
    lost_ += end.lost;
    for (const auto& d : end.departures) departures_.push_back("plan " + std::to_string(number) + ": " + d);
    return exit_done;
  }

  // `wanted`: the run's weights; empty: not known.
  int finish(std::size_t plans, const std::string& wanted) {
    result_json o{{"event", "replayed"},    {"plans", plans},    {"followed", departures_.empty()},
                  {"messages", delivered_}, {"lost", lost_},     {"step", step_},
                  {"loss", loss_},          {"errors", errors_}, {"departures", departures_}};
    const bool known = !wanted.empty() && !weights_.empty();
    if (!weights_.empty()) o["weights_sha256"] = weights_;
    if (known) o["same_weights"] = weights_ == wanted;
    if (out_.json()) out_.object(o);
    out_.text(with_commas(delivered_) + " messages; the last step was " + with_commas(step_) + ", its loss " + fixed(loss_, 4) +
              "\n");
    if (!weights_.empty()) out_.text(weights_line(weights_) + "\n");
    if (known && weights_ == wanted) out_.text("The weights are those of the run.\n");
    const bool others = known && weights_ != wanted;
    if (others && exact_) out_.failed("replay", "the weights of the run were " + wanted);
    if (others && !exact_) out_.remark("the weights of the run were " + wanted);
    for (const auto& d : departures_) out_.failed("replay", "departs from the log at " + d);
    return departures_.empty() && !(others && exact_) ? exit_done : exit_failed;
  }
  bool has_weights() const { return !weights_.empty(); }
  std::uint64_t step() const { return step_; }

 private:
  void handle_event(const prepared_job& j, role_id who, const event_effect& e) {
    if (const auto* bad = e.as<error_event>()) return failed(e.step, bad->message);
    if (const auto* s = e.as<step_event>()) {
      step_ = e.step;
      loss_ = s->loss;
      if (!out_.json()) return;
    }
    tell_replayed(out_, j, who, e);
  }

  void handle_store(const store_effect& s) {
    const auto hash = weights_sha256(s.named);
    if (s.what == store_effect::kind_of::weights) weights_ = hash;
    if (out_.json()) out_.object({{"event", "stored"}, {"what", name_of(s.what)}, {"step", s.step}, {"sha256", hash}});
  }

  void failed(std::uint64_t step, const std::string& text) {
    errors_.push_back(text);
    out_.json() ? out_.object({{"event", "error_again"}, {"step", step}, {"message", text}})
                : out_.text("error at step " + with_commas(step) + ": " + text + "\n");
  }

  const output& out_;
  device& dev_;
  std::uint64_t delivered_ = 0, lost_ = 0, step_ = 0;
  double loss_ = 0;
  bool exact_ = true;  // the log of the last plan names all that decides its weights
  std::string weights_;
  std::vector<std::string> errors_, departures_;
};

// The plan that made this step; a step that was made again after a failure belongs to the later
// one.
std::optional<std::size_t> plan_of_step(const std::vector<recorded_plan>& plans, std::uint64_t step) {
  for (auto i = plans.size(); i-- > 0;)
    if (plans[i].first().begins.step < step) return i;
  return std::nullopt;
}

// The last step of which the log of the coordinator role has a message; ~0: there is no such log.
std::uint64_t last_recorded_step(const recorded_plan& p) {
  std::uint64_t last = p.first().begins.step;
  for (const auto& m : p.nodes)
    for (const auto& r : m.messages.roles) {
      if (index_of(r.id) != 0) continue;
      for (const auto& c : r.chunks)
        for (replay::chunk_reader reader(c); const auto d = reader.next();) last = std::max(last, d->step + 1);
      return last;
    }
  return ~std::uint64_t{0};
}

int run_console(const replay_arguments& a, std::vector<recorded_plan>& plans, std::size_t plan, const std::shared_ptr<device>& dev,
                const output& out) {
  repl_signals signals;
  replay_console console(plans, dev, out, [] { return repl_signals::ends() != 0; });
  if (const auto code = console.open(plan); code != exit_done) return code;
  repl_options o;
  o.prompt = "replay> ";
  o.commands = a.commands.value_or("");
  o.has_commands = a.commands.has_value();
  o.json = out.json();
  if (a.to) {
    const auto there = console.run("to " + std::to_string(*a.to));
    out.lines(there.text.substr(there.text.rfind('\n') + 1) + "\n");
  }
  return run_repl([&](const std::string& line, const std::string*) { return console.run(line); }, o, signals);
}

// The folder for a recording from a cluster, which is removed at the end unless the user names it.
struct copied_folder {
  explicit copied_folder(const std::string& keep) : path(keep), temporary(keep.empty()) {
    if (!temporary) return;
    auto name = (fs::temp_directory_path() / "troupe-replay-XXXXXX").string();
    if (::mkdtemp(name.data())) path = name;
  }
  ~copied_folder() {
    std::error_code ec;
    if (temporary && !path.empty()) fs::remove_all(path, ec);
  }
  copied_folder(const copied_folder&) = delete;
  copied_folder& operator=(const copied_folder&) = delete;
  fs::path path;
  bool temporary;
};

int run_replay_command(const replay_arguments& a, const output& out) {
  std::optional<copied_folder> copies;
  if (!a.cluster.empty()) copies.emplace(a.keep);
  const auto found = copies ? copy_from_cluster(a, copies->path, out) : find_recordings(a);
  if (!found) return out.wrong(found.error().file, found.error().message);
  auto read = read_recorded(found->folders, a.load_plugins);
  if (!read) return unreadable(out, read.error());
  auto& plans = *read;
  const std::shared_ptr<device> dev = make_cpu_device();
  const auto plan = a.to ? plan_of_step(plans, *a.to) : std::optional<std::size_t>(0);
  if (!plan) return out.wrong("--to", "the recording begins at step " + std::to_string(plans.front().first().begins.step));
  if (const auto last = last_recorded_step(plans[*plan]); a.to && *a.to > last)
    return out.wrong("--to", "the recording ends after step " + std::to_string(last));
  if (a.repl || a.commands) return run_console(a, plans, *plan, dev, out);
  replay_report r(out, *dev);
  if (!a.to) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      if (const auto code = r.play(plans[i], i, {}); code != exit_done || stdout_unread()) return code;
    return r.finish(plans.size(), found->weights_sha256);
  }
  if (const auto code = r.play(plans[*plan], *plan, a.to); code != exit_done || stdout_unread()) return code;
  if (!r.has_weights())
    return out.wrong("--to",
                     "the recording ends after step " + std::to_string(r.step()) + ", before step " + std::to_string(*a.to));
  return r.finish(1, {});
}

void add_replay_options(CLI::App& c, replay_arguments& a) {
  c.add_option("RUN", a.runs,
               "A recorded run: its number, its name or its folder; of a cluster also its number there, or\nthe folders that its "
               "nodes have left")
      ->required()
      ->option_text("RUN|DIR...");
  c.add_option("--to", a.to, "End after this step, and print the hash of the weights as if the job had ended there")
      ->option_text("STEP");
  file_option(c, "--cluster", a.cluster, "Cluster file; RUN is the number of a job, whose recording is copied from all nodes");
  file_option(c, "--keep", a.keep, "With --cluster: keep the copies in this folder");
  c.add_flag("--repl", a.repl, "Step through the messages, and look at roles, in a REPL; with --to from there on");
  c.add_option("-c", a.commands, "Run these commands of the REPL, separated by ';', and exit")->option_text("COMMANDS");
  load_plugins_option(c, a.load_plugins, "the recording");
  run_dir_option(c, a.run_dir);
  json_option(c);
}

}  // namespace

cli_command replay_command() {
  return make_command<replay_arguments>(
      "replay", "Run a recorded job again, bit for bit, to any step or message by message",
      "  troupe train job.toml --record\n  troupe replay last\n  troupe replay 7 --to 120\n"
      "  troupe replay 7 --repl --to 120\n  troupe replay 12 --cluster cluster.toml\n  troupe "
      "replay 7 -c \"to 120; role worker0; step 3\"\n"
      "The exit code is 1 if the replay departs from the recording, its weights are others, or the recording "
      "is damaged.",
      add_replay_options, run_replay_command);
}

}  // namespace troupe
