// Files that describe a simulated cluster (docs/simulation.md): [network], [compute], [[fault]]
// and, in a scenario, [run]. Nodes are numbered from 1, like their names (n1, n2, ...); node 1
// has the coordinator.
// Errors: diagnostics with file, line and column; as many as can be found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/sim/models.hpp"

namespace troupe {

// [run]: what `troupe sim SCENARIO` runs; flags of the command line take precedence.
struct sim_run {
  std::string job;  // resolved against the file's folder
  std::uint32_t nodes = 0;
  std::optional<std::int64_t> steps, seed, buckets;
  std::string maths;             // "real", "none" or empty
  std::vector<std::string> set;  // as --set
};

struct sim_spec {
  std::string file;
  std::optional<sim_run> run;
  bool has_network = false, has_compute = false, has_faults = false;
  sim::network_model network;
  sim::compute_model compute;
  double examples_per_second = 0;  // [compute]: forward and backward of an example; sets flops_per_second when the model is known
  bool measure = false;            // [compute]: first measure each layer on this machine
  sim::fault_model faults;
  std::optional<sim::disk_model> disk;
  std::vector<std::pair<std::uint32_t, source_position>> nodes_named;  // indices from 0, for check_nodes
  struct named_role {
    std::size_t fault;  // index in faults.list
    std::string name;
    source_position at;
  };
  std::vector<named_role> roles_named;  // for find_roles
};

expected<sim_spec, diagnostics> parse_sim(const std::string& text, const std::string& file);
expected<sim_spec, diagnostics> read_sim_file(const std::string& path);

// Returns true if the file is a scenario, i.e. has a [run] table; false if it cannot be read.
bool is_scenario(const std::string& path);

// Mistakes: nodes that the file names but a cluster of `nodes` nodes does not have.
diagnostics check_nodes(const sim_spec& s, std::uint32_t nodes);

// Adds the roles that crash alone to the faults, by their ids in this plan. Returns the mistakes in
// their names.
diagnostics find_roles(sim_spec& s, const job_plan& p);

}  // namespace troupe
