// troupe: the command-line program. command_line.cpp has the table of commands; each command
// has a file in commands/.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "actors/supervision/stop_signals.hpp"
#include "apps/cli/command_line.hpp"
#include "apps/cli/completion.hpp"

namespace troupe {
namespace {

using word_list = std::vector<std::string>;

// Reports a wrong command line. The text comes from CLI11, except for unknown commands and options.
// CLI11 also reports --help and --version in this way.
int usage_error(const CLI::App& app, const CLI::ParseError& e, const word_list& arguments, const output& out) {
  if (e.get_exit_code() == 0) return app.exit(e) == 0 ? exit_done : exit_wrong;
  const auto unknown = unknown_argument(app, arguments);
  std::string hint = "try: troupe --help";
  for (const auto* c : app.get_subcommands()) hint = "try: troupe " + c->get_name() + " --help";
  return out.wrong("command line", (unknown.empty() ? std::string(e.what()) : unknown) + " (" + hint + ")");
}

int run(int argc, char** argv) {
  word_list arguments(argv + std::min(argc, 1), argv + argc);
  // The scripts of `troupe reference completion` call this; its words are no command line.
  if (!arguments.empty() && arguments[0] == completion_command) return complete({arguments.begin() + 1, arguments.end()});
  const bool parse_only = !arguments.empty() && arguments[0] == "--parse-only";
  if (parse_only) arguments.erase(arguments.begin());
  command_run chosen;
  const auto app = make_command_line(chosen);
  // Determined before parsing, because errors of the command line are printed as JSON too.
  const output out(std::find(arguments.begin(), arguments.end(), "--json") != arguments.end());
  try {
    app->parse(word_list(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& e) {
    return usage_error(*app, e, arguments, out);
  }
  if (parse_only) return exit_done;
  try {
    return chosen(out);
  } catch (const std::exception& e) {
    return out.failed("troupe", e.what());
  }
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  troupe::ignore_signals_of_writes();
  try {
    return troupe::with_stdout(troupe::run(argc, argv));
  } catch (...) {
    std::fputs("troupe: unexpected failure\n", stderr);
    return troupe::exit_failed;
  }
}
