// Options of `troupe plan`, which prints the plan of a job (plan.cpp) or suggests a better one
// (plan_suggest.cpp).
#pragma once

#include <string>
#include <vector>

#include "apps/troupe_job.hpp"
#include "apps/troupe_output.hpp"
#include "runtime/job/auto_reducer.hpp"

namespace troupe {

struct plan_arguments : job_arguments {
  std::string cluster;
  bool routes = false;                  // list the edges between roles
  bool suggest = false;                 // search for a better placement
  double gigabits = 10, teraflops = 1;  // Gbit/s of a node's link, TFLOP/s of a node
  std::string machine;                  // file with measured rates; empty: the above
  exchange_rates exchange;              // of that file
};

int run_suggest(const plan_arguments& a, const prepared_job& j, std::vector<node_spec> nodes, const output& out);

}  // namespace troupe
