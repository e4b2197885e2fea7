// Parts of `troupe sim`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/command.hpp"
#include "apps/cli/output.hpp"
#include "runtime/node/simulation/sim_setup.hpp"

namespace troupe {

class device;

// --- with faults of daemons and machines (sim_daemons.cpp): a job on whole daemons in a virtual
// cluster (runtime/node/simulation/sim_run.hpp)

// Runs the job once and prints its steps, faults and recoveries. Returns the exit code.
int run_on_sim_cluster(const sim_setup& s, const output& out);

// Runs it once for each seed, on all cores. Exit code 1 and the faults of the first seed that did
// what it must not do, as a file that repeats it.
int run_seeds_on_sim_cluster(const sim_setup& s, std::pair<std::uint64_t, std::uint64_t> seeds, const output& out);

// "A..B" or "A".
std::optional<std::pair<std::uint64_t, std::uint64_t>> seeds_in(const std::string& text);

// --- `troupe sim --replay DIR...` (sim_replay.cpp): runs a failed job's roles again, with the
// messages in the recorded order (runtime/replay/player.hpp)

// `load_plugins`: as of job_text (prepare_text.hpp).
int run_replay(const std::vector<std::string>& folders, bool load_plugins, const std::shared_ptr<device>& dev, const output& out);

}  // namespace troupe
