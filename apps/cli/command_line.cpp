#include "apps/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/commands/commands.hpp"
#include "runtime/base/version.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

constexpr const char* troupe_about =
    "Troupe trains neural networks with actors, on one machine or on a cluster.\n"
    "\n"
    "A job is a TOML file with data, model and training options. To get started:\n"
    "  troupe new JOB                                    write JOB.toml, with a comment for each key\n"
    "  troupe check JOB.toml                             validate the job file\n"
    "  troupe train JOB.toml --out net.safetensors       train it\n"
    "  troupe test JOB.toml --weights net.safetensors    evaluate the weights\n";
constexpr const char* troupe_footer =
    "Exit code: 0 done, 1 failed while running or preempted (stopped with a checkpoint), 2 wrong usage or configuration.\n"
    "With --json every command writes one JSON object per line to stdout, and nothing else.\n"
    "Run `troupe COMMAND --help` for the options of a command.";

struct command_group {
  const char* title;
  std::vector<cli_command> commands;
};

std::vector<command_group> command_groups() {
  return {
      {"Train and continue",
       {train_command(), resume_run_command(), test_command(), predict_command(), sample_command(), serve_command()}},
      {"Look",
       {runs_command(), plot_command(), sql_command(), plan_command(), time_command(), layers_command(), modes_command(),
        reference_command(), device_query_command(), doctor_command(), diagnose_command(), critical_command(), replay_command()}},
      {"Prepare",
       {new_command(), check_command(), fmt_command(), init_command(), data_command(), pack_command(), unroll_command(),
        import_command(), export_command()}},
      {"Cluster",
       {repl_command_entry(), jobs_command(), attach_command(), fetch_command(), init_cluster_command(), certs_command()}},
      {"Develop", {sim_command(), check_layer_command()}}};
}

// Independent of the locale. "nan" and "inf" are out of range.
std::string why_not_real(const std::string& text) {
  double v = 0;
  const auto* end = text.data() + text.size();
  const auto r = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, v);
  if (r.ec == std::errc::result_out_of_range || (r.ec == std::errc() && !std::isfinite(v))) return text + " is out of range";
  return r.ec == std::errc() && r.ptr == end ? std::string() : text + " is not a number";
}

// Returns an error if `text` does not fit the number type of an option; CLI11 would replace it by
// the nearest number that fits. Empty if it fits, or is not an integer, which CLI11 refuses itself.
std::string why_not_represented(const std::string& text, const std::string& type) {
  errno = 0;
  bool good = true;
  if (type.starts_with("FLOAT")) return why_not_real(text);
  if (type.starts_with("UINT"))
    good = !text.starts_with("-") && (std::strtoull(text.c_str(), nullptr, 0), errno != ERANGE);
  else
    good = (std::strtoll(text.c_str(), nullptr, 0), errno != ERANGE);
  return good ? std::string() : text + " is out of range";
}

void refuse_what_cannot_be_represented(CLI::App& c) {
  for (auto* o : c.get_options()) {
    const auto type = o->get_type_name();
    if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"))
      o->check([type](const std::string& text) { return why_not_represented(text, type); });
  }
}

void add_command(CLI::App& app, const cli_command& entry, const std::string& group, command_run& chosen) {
  auto* c = app.add_subcommand(entry.name, entry.about)->group(group);
  if (!entry.examples.empty()) c->footer("Examples:\n" + entry.examples);
  c->callback([&chosen, run = entry.add_options(*c)] { chosen = run; });
  refuse_what_cannot_be_represented(*c);
}

}  // namespace

std::unique_ptr<CLI::App> make_command_line(command_run& chosen) {
  auto app = std::make_unique<CLI::App>(troupe_about, "troupe");
  app->footer(troupe_footer);
  app->set_version_flag("--version", std::string("troupe ") + troupe_version);
  app->require_subcommand(1);
  app->get_formatter()->column_width(28);
  for (const auto& group : command_groups())
    for (const auto& entry : group.commands) add_command(*app, entry, group.title, chosen);
  return app;
}

namespace {

using word_list = std::vector<std::string>;

bool is_option(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && argument.find_first_of("0123456789.") != 1;
}

// The value of an option: "3" of "--epochs=3" or "--epochs 3". "VALUE" if there is none.
std::string value_given(const std::string& option, const word_list& arguments) {
  if (const auto equals = option.find('='); equals != std::string::npos) return option.substr(equals + 1);
  const auto at = std::find(arguments.begin(), arguments.end(), option);
  return at == arguments.end() || at + 1 == arguments.end() || is_option(*(at + 1)) ? "VALUE" : *(at + 1);
}

// The value as the key takes it. `name`: the option, by simplified_name().
std::string value_for_key(const std::string& name, const std::string& key, const std::string& value) {
  const bool switched = value == "VALUE" || value == "true" || value.ends_with(".toml");
  if (key == "job.precision" && (name == "amp" || name == "bf16" || name == "fp16")) return "bf16";
  if (key == "job.devices") {
    if (name == "cuda" && switched) return "gpu:0";
    if (value == "cpu" || value == "gpu" || value == "cuda") return value == "cpu" ? "cpu:0" : "gpu:0";
    if (value.starts_with("cuda:")) return "gpu:" + value.substr(5);
    if (!value.empty() && value.find_first_not_of("0123456789") == std::string::npos)
      return name == "gpus" ? "gpu:0" : "gpu:" + value;
  }
  return switched && value != "true" ? "VALUE" : value;
}

std::string hint_about_key(const std::string& key, const std::string& name, const std::string& value) {
  return "; did you mean " + in_quotes("--set " + key + "=" + value_for_key(name, key, value)) + "?";
}

// Options of other programs, and those of Troupe with the same purpose.
const std::map<std::string, std::string>& options_elsewhere() {
  static const std::map<std::string, std::string> all{{"output", "--out"},
                                                      {"o", "--out"},
                                                      {"logdir", "--run-dir"},
                                                      {"log_dir", "--run-dir"},
                                                      {"save_dir", "--run-dir"},
                                                      {"output_dir", "--run-dir"},
                                                      {"ckpt", "--resume"},
                                                      {"ckpt_path", "--resume"},
                                                      {"from_checkpoint", "--resume"},
                                                      {"resume_from", "--resume"},
                                                      {"resume_from_checkpoint", "--resume"},
                                                      {"pretrained", "--weights"},
                                                      {"finetune", "--weights"},
                                                      {"load", "--weights"},
                                                      {"num_threads", "--threads"},
                                                      {"nthreads", "--threads"},
                                                      {"j", "--threads"},
                                                      {"s", "--set"},
                                                      {"overrides", "--set"},
                                                      {"override", "--set"},
                                                      {"param", "--set"}};
  return all;
}

// Suggests, in this order: an option or a key that other programs call by this name, a key of this
// name, a similar option, a similar key. Keys only if the command has --set.
std::string hint_about_option(const CLI::App& command, const std::string& option, const word_list& arguments) {
  const auto name = simplified_name(option.substr(0, option.find('=')));
  const bool sets = command.get_option_no_throw("--set") != nullptr;
  const auto value = value_given(option, arguments);
  if (const auto other = options_elsewhere().find(name);
      other != options_elsewhere().end() && command.get_option_no_throw(other->second) != nullptr)
    return "; did you mean " + in_quotes(other->second) + "?";
  if (sets && (name == "config" || name == "config_name" || name == "cfg" || name == "job"))
    return "; the job file has no option: troupe " + command.get_name() + " " + value;
  if (const auto key = key_called_elsewhere(name); sets && !key.empty()) return hint_about_key(key, name, value);
  const auto places = places_of_key(name, job_key_paths(node_tables()));
  const auto in_table = std::find_if(places.begin(), places.end(), [](const auto& p) { return p.find('.') != std::string::npos; });
  const bool exact = in_table != places.end() && in_table->ends_with("." + name);
  if (sets && exact) return hint_about_key(*in_table, name, value);
  word_list options;
  for (const auto* o : command.get_options())
    for (const auto& n : o->get_lnames()) options.push_back("--" + n);
  const auto word = option.substr(0, option.find('='));
  auto near = did_you_mean("--" + word.substr(std::min(word.find_first_not_of('-'), word.size())), options);
  if (!near.empty() || !sets || in_table == places.end()) return near;
  return hint_about_key(*in_table, name, value);
}

// `--set lr 0.1` and `train.dynamics.lr=0.1` without --set. Empty: neither.
std::string mistaken_override(const CLI::App& command, const word_list& arguments) {
  if (command.get_option_no_throw("--set") == nullptr) return {};
  const auto full = [](const std::string& key) {
    if (key.starts_with("layer.")) return key;
    const auto paths = job_key_paths(node_tables());
    if (std::find(paths.begin(), paths.end(), key) != paths.end()) return key;
    const auto elsewhere = key_called_elsewhere(key);
    const auto places = places_of_key(key.substr(key.rfind('.') + 1), paths);
    return !elsewhere.empty() ? elsewhere : places.empty() ? std::string() : places[0];
  };
  for (std::size_t i = 0; i + 2 < arguments.size(); ++i) {
    if (arguments[i] != "--set" || arguments[i + 1].find('=') != std::string::npos || is_option(arguments[i + 2])) continue;
    const auto key = full(arguments[i + 1]);
    return "--set takes KEY=VALUE as one word, not " + in_quotes(arguments[i + 1] + " " + arguments[i + 2]) +
           (key.empty() ? "" : "; did you mean " + in_quotes("--set " + key + "=" + arguments[i + 2]) + "?");
  }
  for (const auto& word : command.remaining()) {
    const auto equals = word.find('=');
    if (is_option(word) || equals == std::string::npos || equals == 0) continue;
    if (const auto key = full(word.substr(0, equals)); !key.empty())
      return "unexpected argument " + in_quotes(word) + "; did you mean " + in_quotes("--set " + key + word.substr(equals)) + "?";
  }
  return {};
}

}  // namespace

std::string unknown_argument(const CLI::App& app, const word_list& arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    word_list names;
    for (const auto* c : app.get_subcommands({})) names.push_back(c->get_name());
    if (arguments.empty() || arguments[0].starts_with("-")) return {};
    auto near = did_you_mean(arguments[0], names);
    if (near.empty()) near = did_you_mean(simplified_name(arguments[0]), names);  // TRAIN
    if (near.empty() && arguments[0].ends_with(".toml")) near = "; did you mean " + in_quotes("troupe train " + arguments[0]) + "?";
    return "unknown command " + in_quotes(arguments[0]) + near;
  }
  if (auto mistake = mistaken_override(*chosen[0], arguments); !mistake.empty()) return mistake;
  for (const auto& argument : chosen[0]->remaining())
    if (is_option(argument))
      return "unknown option " + in_quotes(argument.substr(0, argument.find('='))) +
             hint_about_option(*chosen[0], argument, arguments);
  return {};
}

}  // namespace troupe
