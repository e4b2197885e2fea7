// One line in, one reply out. A line is a command and words; what it shows comes from one snapshot of the backend.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "actors/repl/repl.hpp"
#include "actors/repl/request.hpp"
#include "ops/options.hpp"
#include "runtime/graph/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using request = repl_request;

constexpr std::size_t max_job_text = std::size_t{1} << 20;

const std::vector<std::string>& settable() {
  static const std::vector<std::string> keys = {"train.dynamics.lr", "train.dynamics.decay"};
  return keys;
}

repl_reply told(const request& r, std::uint32_t job, const command& c) {
  const auto error = r.backend.tell(job, c);
  if (!error.empty()) return r.fail(error);
  return {kind::ok, repl_told_text(r.json, job, c)};
}

repl_reply run_tell(const request& r, const std::string& name) {
  if (r.args.size() > 1) return r.usage(name + " takes at most a job's number");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 0, error);
  return !job ? r.fail(error) : told(r, *job, {name, {}, 0});
}

repl_reply run_set(const request& r) {
  if (!r.args.empty() && r.args[0].starts_with("train.sync.")) return repl_set_mode_option(r);
  if (r.args.size() < 2 || r.args.size() > 3) return r.usage("set KEY VALUE [JOB]; keys: " + joined(settable()) + ", train.sync.*");
  const auto& key = r.args[0];
  const auto& keys = settable();
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    return r.usage("'" + key + "' cannot be set while a job runs" + did_you_mean(key, keys));
  double value = 0;
  if (!repl_number(r.args[1], value) || !std::isfinite(value))
    return r.usage(in_quotes(r.args[1]) + " is not a number of 0 or more");
  std::string error;
  const auto job = repl_job_of(r.backend.view(), r.args, 2, error);
  return !job ? r.fail(error) : told(r, *job, {"set", key, value});
}

repl_reply run_submit(const request& r) {
  if (r.args.empty()) return r.usage("submit FILE [key=value...]");
  repl_submission s{r.args[0], {}, {r.args.begin() + 1, r.args.end()}};
  if (r.text) {
    s.text = *r.text;
  } else {
    std::string error;
    if (!read_submission(s.file, s.text, error)) return r.fail(error);
  }
  std::uint32_t job = 0;
  const auto error = r.backend.submit(s, job);
  if (!error.empty()) return submitted_reply(r.json, 0, {error});
  if (job == 0) return {kind::later, {}};
  return submitted_reply(r.json, job, {});
}

repl_reply run_help(const request& r) {
  if (r.args.empty()) return {kind::ok, repl_help_text(r.json, "")};
  for (const auto& c : repl_commands())
    if (c.name == r.args[0]) return {kind::ok, repl_help_text(r.json, c.name)};
  std::vector<std::string> names;
  for (const auto& c : repl_commands()) names.push_back(c.name);
  return r.usage("no command " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
}

repl_reply show(const request& r, std::string (*text)(bool, const repl_view&)) {
  return {kind::ok, text(r.json, r.backend.view())};
}

repl_reply run_roles(const request& r) {
  auto v = r.backend.view();
  if (r.args.size() > 1) return r.usage("roles [NODE]");
  if (!r.args.empty()) {
    std::vector<std::string> names;
    for (const auto& n : v.nodes) names.push_back(n.name);
    if (names.empty()) names.push_back(v.node);
    if (std::find(names.begin(), names.end(), r.args[0]) == names.end())
      return r.usage("no node " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
    std::erase_if(v.roles, [&](const auto& x) { return x.node != r.args[0]; });
  }
  return {kind::ok, repl_roles_text(r.json, v)};
}

using runner = repl_reply (*)(const request&);
struct row {
  repl_command_help help;
  runner run;
};

const std::vector<row>& table() {
  static const std::vector<row> rows = {
      {{"status", "", "this node, the job that runs, what it has come to"},
       [](const request& r) { return show(r, repl_status_text); }},
      {{"nodes", "", "nodes of the cluster: state, addresses, bytes of the data plane"},
       [](const request& r) { return show(r, repl_nodes_text); }},
      {{"roles", "[NODE]", "roles of the jobs: step, version, messages, busy seconds"}, run_roles},
      {{"queues", "", "messages and packets held by each role, and its credit"},
       [](const request& r) { return show(r, repl_queues_text); }},
      {{"waits", "", "who waits for whom"}, [](const request& r) { return show(r, repl_waits_text); }},
      {{"jobs", "", "jobs that wait, run and are over"}, [](const request& r) { return show(r, repl_jobs_text); }},
      {{"submit", "FILE [key=value...]", "checks the job file and puts it into the queue"}, run_submit},
      {{"pause", "[JOB]", "holds the job at a step boundary"}, [](const request& r) { return run_tell(r, "pause"); }},
      {{"resume", "[JOB]", "goes on"}, [](const request& r) { return run_tell(r, "resume"); }},
      {{"stop", "[JOB]", "ends the job at a step boundary, with a checkpoint; takes a waiting job out of the queue"}, repl_stop},
      {{"set", "KEY VALUE [JOB]",
        "from the next step on: train.dynamics.lr, train.dynamics.decay, train.sync.* (an option of the mode)"},
       run_set},
      {{"mode", "NAME [key=value...] [JOB]", "switches the synchronisation mode at a step boundary, as in mode ssp staleness=3"},
       repl_mode_command},
      {{"move", "LAYER NODE [JOB]", "all of a layer to one node at a step boundary; LAYER.K: its part K"}, repl_move},
      {{"drain", "NODE [JOB]", "takes everything of the job off a node, which may then be stopped"}, repl_drain},
      {{"add-node", "NODE [JOB]", "gives a drained node back to the job"}, repl_add_node},
      {{"staleness", "[JOB]", "how many clocks old the weights were that steps have used, by parameter"}, repl_staleness},
      {{"watch", "loss [LINES] [JOB]", "follows the steps, until LINES of them or (at a terminal) a line is typed"}, repl_watch},
      {{"layer", "[NAME] [JOB]", "a layer's type, shapes, parameters and multipliers; all layers"}, repl_layer_command},
      {{"checkpoint", "[JOB]", "writes a checkpoint at the next step boundary, and says where it is or why it is not"},
       repl_checkpoint},
      {{"eval", "[JOB]", "evaluates at the next step boundary"}, [](const request& r) { return run_tell(r, "eval"); }},
      {{"help", "[COMMAND]", "what there is"}, run_help},
      {{"quit", "", "leaves; jobs go on"},
       [](const request&) {
         return repl_reply{kind::quit, {}};
       }},
  };
  return rows;
}

// Commands that the REPL's own terminal sends, and no person types: they are in no help text and in no completion.
const std::vector<std::pair<std::string, runner>>& hidden() {
  static const std::vector<std::pair<std::string, runner>> rows = {{"_follow", repl_follow}, {"_complete", repl_complete}};
  return rows;
}

}  // namespace

repl_words repl_split(const std::string& line) {
  repl_words out;
  std::string word;
  bool quoted = false, any = false;
  for (char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
      if (any) out.push_back(std::exchange(word, {}));
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (any) out.push_back(word);
  return out;
}

std::optional<std::uint32_t> repl_job_of(const repl_view& v, const repl_words& args, std::size_t at, std::string& error) {
  if (args.size() > at) {
    std::uint32_t n = 0;
    const bool known =
        repl_number(args[at], n) && std::any_of(v.jobs.begin(), v.jobs.end(), [&](const auto& j) { return j.id == n; });
    if (!known) error = "there is no job " + in_quotes(args[at]);
    if (!known) return std::nullopt;
    return n;
  }
  for (const auto& j : v.jobs)
    if (j.state == "running" || j.state == "paused" || j.state == "stopping") return j.id;
  error = "no job runs";
  return std::nullopt;
}

const std::vector<repl_command_help>& repl_commands() {
  static const std::vector<repl_command_help> list = [] {
    std::vector<repl_command_help> l;
    for (const auto& r : table()) l.push_back(r.help);
    return l;
  }();
  return list;
}

bool read_submission(const std::string& file, std::string& text, std::string& error) {
  std::ifstream in(file, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    error = "cannot read " + file;
    return false;
  }
  if (text.size() <= max_job_text) return true;
  error = file + " is larger than 1 MiB";
  return false;
}

repl_reply repl_session::run(const std::string& line, const std::string* text) {
  auto args = repl_split(line);
  if (args.empty() || args[0].starts_with('#')) return {};
  auto name = args[0];
  if (name == "exit") name = "quit";
  request r{backend_, json_, {args.begin() + 1, args.end()}, text, line};
  for (const auto& [word, run] : hidden())
    if (word == name) return run(r);
  std::vector<std::string> names;
  for (const auto& c : table()) {
    if (c.help.name == name) return c.run(r);
    names.push_back(c.help.name);
  }
  return r.usage("unknown command " + in_quotes(name) + did_you_mean(name, names));
}

}  // namespace troupe
