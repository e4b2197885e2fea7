// Suggestions for wrong command lines.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace troupe {

// Returns an error for the first unknown command or option that `app` has parsed, e.g. "unknown
// command 'trian'; did you mean 'train'?" or "unknown option '--epochs'; did you mean '--set
// train.finish.epochs=3'?". `arguments`, the command line, has the value of the option. Empty if
// all are known.
std::string unknown_argument(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace troupe
