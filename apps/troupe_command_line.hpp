// The command line of `troupe`: its commands, in groups, with their options.
#pragma once

#include <memory>
#include <string>

#include "apps/command.hpp"

namespace troupe {

// When the result has parsed a command line, `chosen` is the command to run. `chosen` must outlive
// the result.
std::unique_ptr<CLI::App> make_command_line(command_run& chosen);

}  // namespace troupe
