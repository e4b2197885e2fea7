// The stock tables (runtime/job/tables.hpp) and the entries that need third-party libraries, which
// the pure runtime does not use. Programs and daemons start with these tables; plugins add entries.
#pragma once

#include "runtime/job/tables.hpp"

namespace troupe {

tables node_tables();

}  // namespace troupe
