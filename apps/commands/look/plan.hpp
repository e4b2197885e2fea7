// Options of `troupe plan`, which prints the plan of a job (plan.cpp) or suggests a better one
// (plan_suggest.cpp).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "apps/commands/job.hpp"
#include "runtime/job/auto_reducer.hpp"
#include "runtime/job/job.hpp"

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

// The column `holds` of the role table: the role's layers, packets or parameters. May be empty.
std::string role_text(const prepared_job& j, const role_plan& r);

// Adds the JSON fields that only roles of this kind have.
void add_role_fields(nlohmann::ordered_json& o, const prepared_job& j, const role_plan& r);

// At most 100 columns wide, with a line of totals.
std::string model_table(const prepared_job& j);

}  // namespace troupe
