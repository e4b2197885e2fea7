// `troupe sim` with faults of daemons and machines: a job on whole daemons in a virtual cluster
// (runtime/node/simulation/sim_run.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "apps/command.hpp"
#include "runtime/node/simulation/sim_setup.hpp"

namespace troupe {

// Runs the job once and prints its steps, faults and recoveries. Returns the exit code.
int run_on_sim_cluster(const sim_setup& s, const output& out);

// Runs it once for each seed, on all cores. Exit code 1 and the faults of the first seed that did
// what it must not do, as a file that repeats it.
int run_seeds_on_sim_cluster(const sim_setup& s, std::pair<std::uint64_t, std::uint64_t> seeds, const output& out);

// "A..B" or "A".
std::optional<std::pair<std::uint64_t, std::uint64_t>> seeds_in(const std::string& text);

}  // namespace troupe
