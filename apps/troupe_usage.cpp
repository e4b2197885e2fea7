#include "apps/troupe_usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
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
