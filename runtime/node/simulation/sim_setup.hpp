// Assembles a simulation of a job from a request, a scenario, and files with network and faults.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/node/simulation/sim_cluster.hpp"
#include "runtime/sim/world.hpp"

namespace troupe {

struct sim_request {
  std::string job;                     // file of the job, or of a scenario
  std::string text;                    // the job itself; empty: read from the file
  std::vector<std::string> overrides;  // "key.path=value"
  std::string cluster;                 // cluster file with the nodes; the job stays unchanged
  std::string network;                 // file with [network] and [compute]
  std::string faults;                  // file with [[fault]]
  std::string maths;                   // "real" or "none"; empty: the scenario's value, or "real"
  bool job_of_run = false;             // `job` lies in a run folder: its plugins are loaded only with load_plugins
  bool load_plugins = false;           // also those of a job that a scenario names (job_text::load_plugins)
  bool daemons = false;                // simulate daemons, even without a fault that hits one
  unsigned nodes = 0;                  // one worker on each; 0: the scenario's value
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
  // If daemons are simulated: the cluster, and the faults that hit daemons and machines. Only
  // faults of the wire are in `world`.
  std::optional<sim::cluster_config> daemons;
  sim::fault_model machine_faults;
  bool same_bits = false;  // the job's weights do not depend on failures
};

// Returns the simulation, or the errors in the user's files and options.
expected<sim_setup, diagnostics> make_sim(sim_request a, std::shared_ptr<device> dev, std::shared_ptr<const tables> all);

// Adds the job's roles to a world that was made with `s.world`, and starts the job. `s` must
// outlive the world.
void begin_sim(const sim_setup& s, sim::world& world);

}  // namespace troupe
