// An entry of the table of commands (command_line.cpp), and the options that many commands share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "apps/cli/output.hpp"
#include "apps/commands/job.hpp"
#include "apps/commands/named_run.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe {

// Runs a command with its parsed options; returns the exit code.
using command_run = std::function<int(const output&)>;

struct cli_command {
  std::string name, about;
  std::string examples;                               // printed at the end of --help
  std::function<command_run(CLI::App&)> add_options;  // returns the command, to be run after the command line is parsed
};

// `Arguments` that are job_arguments name a job file when the command runs, also if the user named
// a run.
template <class Arguments>
cli_command make_command(std::string name, std::string about, std::string examples, void (*options)(CLI::App&, Arguments&),
                         int (*run)(const Arguments&, const output&)) {
  const auto add = [options, run](CLI::App& c) -> command_run {
    const auto a = std::make_shared<Arguments>();
    options(c, *a);
    return [a, run](const output& out) {
      if constexpr (std::is_base_of_v<job_arguments, Arguments>)
        if (const auto found = find_job(*a); !found) return wrong_file(out, found.error());
      return run(*a, out);
    };
  };
  return {std::move(name), std::move(about), std::move(examples), add};
}

void json_option(CLI::App& c);                            // --json
void job_options(CLI::App& c, job_arguments& a);          // JOB, --set, --load-plugins, --run-dir and --json
void runs_folder_option(CLI::App& c, std::string& into);  // --run-dir
CLI::Option* file_option(CLI::App& c, const std::string& name, std::string& into, const std::string& text);
// --load-plugins. `of`: what names the plugins: a file that the user did not name as a job file.
CLI::Option* load_plugins_option(CLI::App& c, bool& into, const std::string& of);
void threads_option(CLI::App& c, unsigned& into, const std::string& fallback);

}  // namespace troupe
