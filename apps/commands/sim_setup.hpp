// Assembles the simulation of `troupe sim` from the command line, a scenario, and files with
// network and faults.
#pragma once

#include <memory>
#include <vector>

#include "apps/troupe_job.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/sim/world.hpp"

namespace troupe {

struct sim_arguments : job_arguments {
  std::string cluster;                   // cluster file with the nodes; the job stays unchanged
  std::string network;                   // file with [network] and [compute]
  std::string faults;                    // file with [[fault]]
  std::vector<std::string> replay = {};  // post-mortem folders of a failed job, instead of a job
  std::string trace;                     // file for a Perfetto trace
  std::string maths;                     // "real" or "none"; empty: the scenario's value, or "real"
  unsigned nodes = 0;                    // one worker on each; 0: the scenario's value
  std::int64_t seed = -1, buckets = -1, steps = 0;
};

struct sim_setup {
  std::shared_ptr<prepared_job> job;
  sim::world_config world;
  bool maths = true;
  bool named_network = false, named_compute = false;  // by the user; otherwise the defaults hold
  std::uint32_t workers = 0, buckets = 0;
  std::int64_t asked_batch = 0;  // before rounding up
  // With [compute] measure: seconds of each stage's forward and backward for one packet, by role;
  // otherwise empty.
  std::vector<std::pair<double, double>> measured;
};

// Returns the simulation, or the errors in the user's files and options.
expected<sim_setup, diagnostics> make_sim(sim_arguments a, std::shared_ptr<device> dev);

}  // namespace troupe
