// The command line of `trouped`: for the daemon itself, and for its man page and completion.
#pragma once

#include "actors/daemon.hpp"

namespace CLI {
class App;
}

namespace troupe {

constexpr const char* daemon_about = "Run the daemon of one node of a Troupe cluster.";
// `o` must outlive `app`.
void add_daemon_options(CLI::App& app, daemon_options& o);

}  // namespace troupe
