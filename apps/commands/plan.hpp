// What `troupe plan` was asked, for its two ways: the plan as it is (plan.cpp), and a better one
// (plan_suggest.cpp).
#pragma once

#include <string>
#include <vector>

#include "apps/troupe_job.hpp"
#include "apps/troupe_output.hpp"

namespace troupe {

struct plan_arguments : job_arguments {
  std::string cluster;
  bool suggest = false;                 // where layers had better lie
  double gigabits = 10, teraflops = 1;  // of a node's link, of a node
};

int run_suggest(const plan_arguments& a, const prepared_job& j, std::vector<node_spec> nodes, const output& out);

}  // namespace troupe
