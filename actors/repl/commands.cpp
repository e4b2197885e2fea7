// The table of commands.
#include <algorithm>

#include "actors/repl/command.hpp"

namespace troupe {

const std::vector<repl_command>& repl_table() {
  static const auto rows = [] {
    std::vector<repl_command> all;
    for (const auto family : {repl_commands_that_look, repl_commands_to_jobs, repl_commands_that_change, repl_commands_that_ask,
                              repl_commands_that_harm, repl_commands_of_sessions})
      for (auto& row : family()) all.push_back(std::move(row));
    return all;
  }();
  return rows;
}

const repl_command* find_repl_command(const std::string& name) {
  const auto& rows = repl_table();
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.help.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

const repl_following* find_repl_following(const std::string& name) {
  for (const auto& row : repl_table())
    if (row.follow && row.follow->name == name) return row.follow;
  return nullptr;
}

const std::vector<repl_command_help>& repl_commands() {
  static const std::vector<repl_command_help> list = [] {
    std::vector<repl_command_help> l;
    for (const auto& row : repl_table()) l.push_back(row.help);
    return l;
  }();
  return list;
}

}  // namespace troupe
