// Commands that change a running job at a step boundary: set, mode, move, drain, add-node, balance.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

const std::string sync_prefix = "train.sync.";

// --- set, mode

std::optional<repl_reply> hear_mode(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  const auto* changed = e.what.as<mode_event>();
  if (!changed) return std::nullopt;
  const auto mode = changed->mode.text();
  const auto view = r.backend.view();
  const auto* j = find_job(view, e.job);
  const auto before = j && j->mode == mode ? j->mode_before : std::string();
  auto more = repl_text::json_object::object();
  if (!before.empty()) more["before"] = before;
  return repl_outcome(
      r, e, "mode: " + (before.empty() ? "" : before + " -> ") + mode + " from step " + std::to_string(e.what.step) + " on", more);
}
constexpr repl_following to_the_mode = {.name = "mode", .handle_event = hear_mode};

// The rate that follows from a new base, if schedule or lr_scale make another of it.
std::string rate_beside(const set_event& s) {
  if (!s.rate_differs()) return {};
  return "; the rate of that step is " + repl_text::number(*s.rate);
}

// An option of the mode is changed by the event "mode".
std::optional<repl_reply> hear_setting(const repl_request& r, const repl_event& e, const std::vector<repl_event>& said) {
  const auto* set = e.what.as<set_event>();
  if (!set) return hear_mode(r, e, said);
  const auto& [key, value] = set->setting;
  const auto view = r.backend.view();
  std::optional<double> before;
  if (const auto* j = find_job(view, e.job))
    for (const auto& s : j->settings)
      if (s.key == key && s.value == value && s.from == e.what.step) before = s.before;
  repl_text::json_object more{{"key", key}, {"value", value}};
  if (before) more["before"] = *before;
  const auto rate = rate_beside(*set);
  return repl_outcome(r, e,
                      key + (rate.empty() ? "" : ", the base of the schedule") + ": " +
                          (before ? repl_text::number(*before) + " -> " : "") + repl_text::number(value) + " from step " +
                          std::to_string(e.what.step) + rate,
                      more);
}
constexpr repl_following to_the_setting = {.name = "set", .handle_event = hear_setting};

const std::vector<std::string>& settable() {
  static const std::vector<std::string> keys = {"train.dynamics.lr", "train.dynamics.decay"};
  return keys;
}

repl_reply set_mode_option(const repl_request& r) {
  if (r.args.size() < 2 || r.args.size() > 3 || r.args[0].size() == sync_prefix.size())
    return r.usage("usage: set train.sync.KEY VALUE [JOB]");
  const auto job = repl_job_of(r.backend.view(), r.args, 2);
  return repl_tell_and_follow(r, job, {set_option_command{r.args[0].substr(sync_prefix.size()), r.args[1]}});
}

repl_reply run_set(const repl_request& r) {
  if (!r.args.empty() && r.args[0].starts_with(sync_prefix)) return set_mode_option(r);
  const auto& keys = settable();
  const auto what_can = "; keys: " + joined(keys) + ", train.sync.*";
  if (r.args.size() < 2 || r.args.size() > 3) return r.usage("usage: set KEY VALUE [JOB]" + what_can);
  const auto& key = r.args[0];
  if (std::find(keys.begin(), keys.end(), key) == keys.end())
    return r.usage("'" + key + "' cannot be set on a running job" + did_you_mean(key, keys) + what_can);
  double value = 0;
  if (!repl_number(r.args[1], value) || !std::isfinite(value))
    return r.usage(in_quotes(r.args[1]) + " is not a non-negative number");
  const auto job = repl_job_of(r.backend.view(), r.args, 2);
  return repl_tell_and_follow(r, job, {set_command{key, value}});
}

std::vector<std::string> keys(const repl_typed& t) {
  auto all = settable();
  for (const auto& m : repl_choice::known_modes(t.view))
    for (const auto& o : m.options) all.push_back(sync_prefix + o);
  return all;
}

// The last argument is the job if it contains no '='.
repl_reply run_mode(const repl_request& r) {
  if (r.args.empty()) return r.usage("usage: mode NAME [key=value...] [JOB]");
  const repl_arguments pairs(r.args.begin() + 1, r.args.end());
  mode_choice mode{r.args[0]};
  std::optional<expected<std::uint32_t>> job;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto is = pairs[i].find('=');
    const bool last = i + 1 == pairs.size();
    if (is == std::string::npos && last && !job) {
      job = repl_job_of(r.backend.view(), pairs, i);
      if (!*job) return r.fail(job->error().text + " (write options as key=value)");
    } else if (is == std::string::npos || is == 0) {
      return r.usage(in_quotes(pairs[i]) + " is not an option: write key=value, e.g. mode ssp staleness=3");
    } else {
      mode.options.emplace_back(pairs[i].substr(0, is), pairs[i].substr(is + 1));
    }
  }
  if (!job) job = repl_job_of(r.backend.view(), {}, 0);
  return repl_tell_and_follow(r, *job, {mode_command{std::move(mode)}});
}

std::vector<std::string> options_of_the_mode(const repl_typed& t) {
  auto all = repl_choice::jobs(t);
  for (const auto& m : repl_choice::known_modes(t.view))
    if (m.name == t.before[1])
      for (const auto& o : m.options) all.push_back(o + "=");
  return all;
}

// --- move, drain, add-node

std::optional<repl_reply> hear_move(const repl_request& r, const repl_event& e, const std::vector<repl_event>&) {
  const auto* moved = e.what.as<moved_event>();
  if (!moved) return std::nullopt;
  return repl_outcome(r, e,
                      moved->message + " at step " + repl_text::number(e.what.step) + " in " + fixed_text(moved->ms, 0) + " ms");
}
constexpr repl_following to_the_move = {.name = "move", .handle_event = hear_move, .patience = repl_long_patience};

// Sends `c`, a command with `takes` arguments of its own; one more argument is the job.
repl_reply amend_job(const repl_request& r, const command& c, std::size_t takes) {
  const auto job = repl_job_of(r.backend.view(), r.args, takes);
  return repl_tell_and_follow(r, job, c);
}

repl_reply run_move(const repl_request& r) {
  if (r.args.size() < 2 || r.args.size() > 3) return r.usage("usage: move LAYER NODE [JOB]; LAYER.K is part K of a split layer");
  return amend_job(r, {move_command{r.args[0], r.args[1]}}, 2);
}

template <class Command>  // with a node
repl_reply run_of_a_node(const repl_request& r) {
  if (r.args.empty() || r.args.size() > 2) return r.usage(r.command->help.name + ": expected NODE [JOB]");
  return amend_job(r, {Command{r.args[0]}}, 1);
}

repl_reply run_balance(const repl_request& r) {
  if (r.args.empty() || r.args.size() > 2) return r.usage("usage: balance N,N,... [JOB]: the packets of each worker");
  balance_command c;
  std::istringstream list(r.args[0]);
  for (std::string n; std::getline(list, n, ',');)
    if (!read_number(n, c.packets.emplace_back())) return r.fail("bad number of packets " + in_quotes(n));
  return amend_job(r, {std::move(c)}, 1);
}

std::vector<repl_command> commands_that_move() {
  using namespace repl_choice;
  return {
      {.help = {"move",
                "LAYER NODE [JOB]",
                "move a layer to one node at a step boundary",
                {{"LAYER", "a layer; LAYER.K is part K of a split layer"}, {"NODE", "a node, or NODE/DEVICE"}, repl_job_argument()},
                {{"move ip1 n2", "moves layer ip1 to node n2"}, {"move ip1 n2/gpu:1", "to a device of n2"}}},
       .run = run_move,
       .follow = &to_the_move,
       .completes = {layers, nodes, jobs},
       .needs = right::run_jobs},
      {.help = {"drain",
                "NODE [JOB]",
                "move the job off a node, so that the node can be stopped",
                {{"NODE", "a node of the job"}, repl_job_argument()},
                {{"drain n2", "moves all roles off n2"}}},
       .run = run_of_a_node<drain_command>,
       .follow = &to_the_move,
       .completes = {nodes, jobs},
       .needs = right::run_jobs},
      {.help = {"add-node",
                "NODE [JOB]",
                "let the job use a drained node again",
                {{"NODE", "a drained node"}, repl_job_argument()},
                {{"add-node n2", "gives n2 roles of the job again"}}},
       .run = run_of_a_node<add_node_command>,
       .follow = &to_the_move,
       .completes = {nodes, jobs},
       .needs = right::run_jobs},
      {.help = {"balance",
                "N,N,... [JOB]",
                "set the packets of each worker, in a job with fraction = \"auto\"",
                {{"N,N,...", "packets of worker 0, worker 1, ...; their sum is the packets of a step"}, repl_job_argument()},
                {{"balance 12,4", "gives worker 0 three quarters of each batch"}}},
       .run = run_balance,
       .follow = &to_the_move,
       .completes = {nullptr, jobs},
       .needs = right::run_jobs},
  };
}

}  // namespace

std::vector<repl_command> repl_commands_that_change() {
  using namespace repl_choice;
  std::vector<repl_command> all = {
      {.help = {"set",
                "KEY VALUE [JOB]",
                "change a value of the running job, and print the old value and the step from which the new one applies",
                {{"KEY", "train.dynamics.lr, train.dynamics.decay, or train.sync.OPTION, an option of the mode"},
                 {"VALUE", "the new value; a schedule multiplies the new learning rate as it did the old one"},
                 repl_job_argument()},
                {{"set train.dynamics.lr 0.001", "sets the base of the learning rate, and prints the rate that follows"},
                 {"set train.sync.staleness 5", "sets an option of mode ssp, at a step boundary"}}},
       .run = run_set,
       .follow = &to_the_setting,
       .completes = {keys, nullptr, jobs},
       .needs = right::run_jobs},
      {.help = {"mode",
                "NAME [key=value...] [JOB]",
                "switch the synchronisation mode at a step boundary",
                {{"NAME", "a mode, e.g. bsp, ssp, easgd"}, {"key=value", "an option of the mode"}, repl_job_argument()},
                {{"mode ssp staleness=3", "switches to ssp with staleness 3"}, {"mode bsp", "switches to bsp"}}},
       .run = run_mode,
       .follow = &to_the_mode,
       .completes = {modes},
       .completes_rest = options_of_the_mode,
       .needs = right::run_jobs},
  };
  for (auto& entry : commands_that_move()) all.push_back(std::move(entry));
  return all;
}

}  // namespace troupe
