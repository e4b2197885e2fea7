// Files that describe a simulated cluster (docs/simulation.md): [network], [compute], [[fault]]
// and, in a scenario, [run]. Nodes are numbered from 1 in the order of the cluster; node 1 has the
// coordinator. Faults may also give the names of nodes.
// Errors: diagnostics with file, line and column; as many as can be found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
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
  std::vector<std::pair<std::uint32_t, source_position>> nodes_named;  // by number: indices from 0
  struct node_name {
    std::string name;
    source_position at;
  };
  std::vector<node_name> names_used;  // by name; until find_nodes, `first_named_node + i` in `faults` is node names_used[i]
};
constexpr std::int64_t max_sim_nodes = 65535;
constexpr std::uint32_t first_named_node = 65536;

expected<sim_spec, diagnostics> parse_sim(const std::string& text, const std::string& file);
expected<sim_spec, diagnostics> read_sim_file(const std::string& path);

// Returns true if the file is a scenario, i.e. has a [run] table; false if it cannot be read.
bool is_scenario(const std::string& path);

// Finds the nodes that the file names in a cluster with nodes of these names: replaces names in
// `faults` by indices. Returns the mistakes: nodes that the cluster does not have.
diagnostics find_nodes(sim_spec& s, const std::vector<std::string>& names);

}  // namespace troupe
