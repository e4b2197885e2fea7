// The stock tables (runtime/job/tables.hpp) and the rows that third-party libraries keep out of the
// pure runtime. What programs and daemons start from; plugins add to it.
#pragma once

#include "runtime/job/tables.hpp"

namespace troupe {

tables node_tables();

}  // namespace troupe
