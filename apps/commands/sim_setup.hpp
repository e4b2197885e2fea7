// What `troupe sim` runs, put together from the command line, a scenario, and the files of network
// and faults.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "apps/troupe_job.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/sim/world.hpp"

namespace troupe {

struct sim_arguments : job_arguments {
  std::string cluster;                   // a cluster file: its nodes, and the job as it stands
  std::string network;                   // a file with [network] and [compute]
  std::string faults;                    // a file with [[fault]]
  std::vector<std::string> replay = {};  // folders of a failed job, instead of all else
  std::string trace;                     // where to write a trace for Perfetto
  std::string maths;                     // "real" or "none"; empty: as the scenario says, else real
  unsigned nodes = 0;                    // workers, one a node; 0: as the scenario says
  std::int64_t seed = -1, buckets = -1, steps = 0;
};

struct sim_setup {
  std::shared_ptr<prepared_job> job;
  sim::world_config world;
  bool maths = true;
  std::uint32_t workers = 0, buckets = 0;
  std::int64_t asked_batch = 0;  // before it was rounded up
  // [compute] measure: seconds of one packet's forward and backward of each stage, by role; empty
  // else.
  std::vector<std::pair<double, double>> measured;
};

// Errors: the user's mistakes, with their places.
std::variant<sim_setup, diagnostics> make_sim(sim_arguments a, std::shared_ptr<device> dev);

}  // namespace troupe
