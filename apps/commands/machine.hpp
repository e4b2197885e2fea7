// Rates that `troupe doctor --out FILE` has measured, for `troupe plan` and `troupe train`, which
// compare the reducers by them.
// Errors: values; a file without rates is one. Threads: functions without state.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/auto_reducer.hpp"

namespace troupe {

struct machine_rates {
  std::optional<exchange_rates> exchange;  // of a node's link; nullopt: the file has no bandwidth
  double teraflops = 0;                    // of a node; 0: the file has no speed
};
// Reads [network] and [compute] of a simulation file (docs/simulation.md), which doctor writes.
expected<machine_rates, diagnostics> read_machine(const std::string& file);

// Seconds of a step's exchange with each reducer that suits the job, the best first. Empty for one
// worker.
std::vector<std::pair<std::string, double>> seconds_of_reducers(const exchange_rates& rates, const prepared_job& j);

}  // namespace troupe
