// node_host together with CAF, for code that spawns its own actors in the same system (control
// plane, REPL). These actors must end before the node_host is destroyed, whose destructor waits for
// them.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/shell/node_host.hpp"
