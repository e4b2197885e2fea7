// node_host for those who write actors of their own in the same system (control plane, REPL):
// includes CAF. Actors spawned there must be gone before the node_host is destroyed, which waits
// for them.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/shell/node_host.hpp"
