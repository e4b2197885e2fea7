// Where layers had better lie: `troupe plan --suggest`. Every layer with parameters is beside all
// workers (batch), split by feature over the workers' nodes, or whole on one node; the others
// follow their inputs. A step's estimate is FireCaffe's (Iandola et al. 2016): work of the busiest
// node over its rate, plus bytes of its busiest direction over the bandwidth, nothing overlapped.
//
// A local search from "all by batch": one layer changes, or it and all behind it, as long as that
// makes the estimate smaller. Each candidate is a real plan, priced by cost_of(), so what is
// suggested costs what `troupe plan` says of it; that it is the best of all is not proven. Pure.
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
    double data_parallel = 0;   // bytes a worker moves in a step for it by batch: its weights up and down
    double model_parallel = 0;  // else: its input there, and the gradient of it back (nothing for the first layer's)
    double flops = 0;           // of a step, all packets, forward and backward
    std::string partition;      // batch | feature | none
    std::string place;          // none: the node
    bool write = false;         // do these keys have to be in the file?
  };
  struct cost {
    double seconds = 0, bytes = 0, flops = 0;  // a step; of the busiest direction of a node, of the busiest node
  };
  std::vector<entry> entries;  // layers with parameters, in order
  cost by_batch, suggested;
  std::size_t plans = 0;  // priced
};

// What the job says about places is set aside; `options` are those that its plans are made with
// (runtime/job/options_of_plan.hpp).
suggestion suggest_places(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                          const suggest_rates& rates = {}, const plan_options& options = {});

}  // namespace troupe
