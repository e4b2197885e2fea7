// The command line of `troupe`: its commands, in groups, with their options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/command.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace troupe {

// When the result has parsed a command line, `chosen` is the command to run. `chosen` must outlive
// the result.
std::unique_ptr<CLI::App> make_command_line(command_run& chosen);

// Returns an error for the first unknown command or option that `app` has parsed, e.g. "unknown
// command 'trian'; did you mean 'train'?" or "unknown option '--epochs'; did you mean '--set
// train.finish.epochs=3'?". `arguments`, the command line, has the value of the option. Empty if
// all are known.
std::string unknown_argument(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace troupe
