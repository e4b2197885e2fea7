#include "apps/troupe_usage.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/base/wording.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

bool is_option(const std::string& argument) { return argument.size() > 2 && argument.starts_with("--"); }

// The value of an option: "3" of "--epochs=3" or "--epochs 3". "VALUE" if there is none.
std::string value_given(const std::string& option, const std::vector<std::string>& arguments) {
  if (const auto equals = option.find('='); equals != std::string::npos) return option.substr(equals + 1);
  const auto at = std::find(arguments.begin(), arguments.end(), option);
  return at == arguments.end() || at + 1 == arguments.end() || is_option(*(at + 1)) ? "VALUE" : *(at + 1);
}

// Suggests a similar option of the command or, if the command has --set, a key of this name.
std::string hint_about_option(const CLI::App& command, const std::string& option, const std::vector<std::string>& arguments) {
  const auto name = option.substr(2, option.find('=') - 2);
  std::vector<std::string> options;
  for (const auto* o : command.get_options())
    for (const auto& n : o->get_lnames()) options.push_back("--" + n);
  auto near = did_you_mean("--" + name, options);
  if (!near.empty() || command.get_option_no_throw("--set") == nullptr) return near;
  auto key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  const auto places = places_of_key(key, job_key_paths(node_tables()));
  return places.empty() ? "" : "; did you mean " + in_quotes("--set " + places[0] + "=" + value_given(option, arguments)) + "?";
}

}  // namespace

std::string unknown_argument(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    std::vector<std::string> names;
    for (const auto* c : app.get_subcommands({})) names.push_back(c->get_name());
    if (arguments.empty() || arguments[0].starts_with("-")) return {};
    return "unknown command " + in_quotes(arguments[0]) + did_you_mean(arguments[0], names);
  }
  for (const auto& argument : chosen[0]->remaining())
    if (is_option(argument))
      return "unknown option " + in_quotes(argument.substr(0, argument.find('='))) +
             hint_about_option(*chosen[0], argument, arguments);
  return {};
}

}  // namespace troupe
