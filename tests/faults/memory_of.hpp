// Memory of a daemon in tests.
#pragma once

#include <fstream>
#include <string>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {

// Resident memory of the process in MiB.
inline double memory_of(const process& p) {
  std::ifstream in("/proc/" + std::to_string(p.pid()) + "/status");
  double kib = 0;
  for (std::string word; in >> word;)
    if (word == "VmRSS:" && in >> kib) break;
  return kib / 1024;
}

}  // namespace troupe::testing_cluster
