// The table of commands.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {

const std::vector<repl_command>& repl_table() {
  static const auto entries = [] {
    std::vector<repl_command> all;
    for (const auto family :
         {repl_commands_that_look, repl_commands_to_jobs, repl_commands_that_change, repl_commands_that_ask,
          repl_commands_that_watch, repl_commands_that_trace, repl_commands_that_harm, repl_commands_of_sessions})
      for (auto& entry : family()) all.push_back(std::move(entry));
    return all;
  }();
  return entries;
}

const repl_command* find_repl_command(const std::string& name) {
  const auto& entries = repl_table();
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.help.name == name; });
  return at == entries.end() ? nullptr : &*at;
}

const repl_following* find_repl_following(const std::string& name) {
  for (const auto& entry : repl_table())
    if (entry.follow && entry.follow->name == name) return entry.follow;
  return nullptr;
}

std::string repl_command_name(const std::string& word) { return word == "?" ? "help" : word == "exit" ? "quit" : word; }

std::string repl_unknown_command(const std::string& name) {
  return "unknown command " + in_quotes(name) + did_you_mean(name, repl_choice::commands({{}, {}}));
}

const std::vector<repl_command_help>& repl_commands() {
  static const std::vector<repl_command_help> list = [] {
    std::vector<repl_command_help> l;
    for (const auto& entry : repl_table()) l.push_back(entry.help);
    return l;
  }();
  return list;
}

}  // namespace troupe
