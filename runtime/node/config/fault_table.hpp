// One [[fault]] table of a simulation file (docs/simulation.md).
#pragma once

#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// Reads the table and appends the fault to `into`. Mistakes go to `errors`, as those of `r` do.
void read_fault(table_reader& r, sim_spec& into, diagnostics& errors);

// Reads a time with a unit; whole numbers of a unit are exact to the nanosecond. Returns false if
// the key is absent or wrong.
bool read_duration(table_reader& r, std::string_view key, duration& into);

}  // namespace troupe
