// Chooses the reducer of `exchange.reducer = "auto"`. A plan is made with each reducer that suits
// the job, and its cost computed from the bytes and messages of its busiest node in a step. The
// cheapest reducer is taken; a simpler one is preferred unless another is more than 5 % cheaper.
// Pure: every node of a cluster makes the same choice.
//
//   seconds = bytes / bandwidth + messages * time per message + hops * latency
//     bytes:    of the busiest direction of a node
//     messages: of the busiest node
//
// This is the alpha-beta model of collectives (Thakur, Rabenseifner and Gropp 2005) with processor
// time for each message. The weights do not depend on the choice: `ring`, which adds in another
// order, is not a candidate.
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
  double bytes = 0;        // per step, of the busiest direction of a node
  double messages = 0;     // per step, sent and received by the busiest node
  std::uint32_t hops = 0;  // from a worker to its shard and back
  double seconds(const exchange_rates& r) const {
    return bytes / r.bytes_per_second + messages * r.each_message + hops * r.latency;
  }
};
// Returns the cost of sums and weights; `bytes` also has the other traffic of the plan.
exchange_cost cost_of_exchange(const job_plan& p, const model_graph& g, const job_spec& spec);

struct priced_reducer {
  std::string name;
  exchange_cost cost;
};
// Returns the reducers that suit the job on these nodes, the simplest first. `j` must be prepared
// up to its plan.
std::vector<priced_reducer> priced_reducers(const prepared_job& j, const std::vector<node_spec>& nodes);
std::string cheapest(const std::vector<priced_reducer>& all, const exchange_rates& rates = {});  // "server" if `all` is empty
// Replaces reducer "auto" of the job; does nothing for other reducers.
void choose_reducer(prepared_job& j, const std::vector<node_spec>& nodes);

}  // namespace troupe
