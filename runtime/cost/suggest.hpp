// Suggests where to place layers: `troupe plan --suggest`. Every layer with parameters is next to
// every worker (batch), split by feature over the workers' nodes, or whole on one node. Other
// layers follow their inputs. A step's estimate is FireCaffe's (Iandola et al. 2016): work of the
// busiest node over its rate, plus bytes of its busiest direction over the bandwidth, without
// overlap.
//
// A local search from "all by batch": it changes one layer, or that and all later ones, as long as
// the estimate decreases. Each candidate is a real plan, priced as by cost_of(), so the suggestion
// costs what `troupe plan` prints for it. It need not be the optimum. Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/plan/plan.hpp"

namespace troupe {

struct suggest_rates {
  double bytes_per_second = 1.25e9;  // of a node's link, each direction
  double flops_per_second = 1e12;    // of a node
};

struct suggestion {
  struct entry {
    std::uint32_t layer = 0;    // index in the graph
    double data_parallel = 0;   // by batch: bytes that a worker moves for it in a step, its weights up and down
    double model_parallel = 0;  // otherwise: its input, and the gradient of that back (none for the first layer)
    double flops = 0;           // of a step, all packets, forward and backward
    std::string partition;      // batch | feature | none
    std::string place;          // none: the node
    bool write = false;         // these keys must be in the job file
  };
  struct cost {
    double seconds = 0, bytes = 0, flops = 0;  // a step; of the busiest direction of a node, of the busiest node
  };
  std::vector<entry> entries;  // layers with parameters, in order
  cost by_batch, suggested;
  std::size_t plans = 0;  // number of plans that were priced
};

// Ignores the job's own placement. `options`: those with which its plans are made
// (runtime/job/options_of_plan.hpp).
suggestion suggest_places(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                          const suggest_rates& rates = {}, const plan_options& options = {});

}  // namespace troupe
