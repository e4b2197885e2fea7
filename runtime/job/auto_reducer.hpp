// Which reducer `exchange.reducer = "auto"` is. Each one that suits the job is drawn as a real plan
// and priced by what its busiest node sends and gets in a step; the cheapest is taken, the simpler
// one where they cost the same to within 5 %. Pure, so every node of a cluster chooses alike.
//
//   seconds = bytes of the busiest direction of a node / bandwidth + messages of the busiest node * each + hops * latency
//
// That is the alpha-beta model of collectives (Thakur, Rabenseifner and Gropp 2005) with a
// processor's time for each message. Weights do not depend on the choice: `ring`, whose sums are in
// another order, is not among those that are chosen from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

struct exchange_rates {
  double bytes_per_second = 1.25e8;  // of a node's link, each direction: 1 Gbit/s
  double latency = 100e-6;           // seconds
  double each_message = 10e-6;       // seconds of a node's processor
};

struct exchange_cost {
  double bytes = 0;        // of the busiest direction of a node, a step
  double messages = 0;     // of the busiest node, sent and received
  std::uint32_t hops = 0;  // from a worker to its shard and back
  double seconds(const exchange_rates& r) const {
    return bytes / r.bytes_per_second + messages * r.each_message + hops * r.latency;
  }
};
// Of sums and weights; what else the plan sends between nodes is in `bytes` too.
exchange_cost cost_of_exchange(const job_plan& p, const model_graph& g, const job_spec& spec);

struct priced_reducer {
  std::string name;
  exchange_cost cost;
};
// Those that suit the job on these nodes, the simplest first. `j` is prepared up to its plan;
// nothing of it changes.
std::vector<priced_reducer> priced_reducers(const prepared_job& j, const std::vector<node_spec>& nodes);
std::string cheapest(const std::vector<priced_reducer>& all, const exchange_rates& rates = {});  // "server" when there are none
// In place of "auto"; any other stays.
void choose_reducer(prepared_job& j, const std::vector<node_spec>& nodes);

}  // namespace troupe
