// What a mistaken command line probably meant.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace troupe {

// "unknown command 'trian'; did you mean 'train'?", or "unknown option '--epochs'; did you mean
// '--set train.finish.epochs=3'?" with the value that stands behind it in `arguments`, the command
// line. Empty: no command or option that `app` has read is unknown.
std::string unknown_argument(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace troupe
