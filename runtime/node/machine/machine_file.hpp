// Measured facts as a file with [network], [compute] and [disk] (runtime/node/config/sim_file.hpp),
// which `troupe sim --network FILE` and `troupe plan --machine FILE` read.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/machine/facts.hpp"

namespace troupe::machine {

struct measured_node {
  std::string name;
  unsigned threads = 1;  // CPU devices, that is, tasks that it runs at once
  facts what;            // speed.sgemm_all 0: it was not measured
};

// `nodes`: all nodes of the cluster, in the order of its file, by which the file numbers them. A
// table without a measurement is left out. Each node's link has the best rate of its connections;
// those between nodes of one machine do not count if there are others.
std::string machine_file(const std::vector<measured_node>& nodes, const std::vector<link>& links, const std::string& title);

}  // namespace troupe::machine
