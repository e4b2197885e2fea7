// `troupe plan --suggest` prices the plans that the job would have, with its reducers.
#include "runtime/cost/suggest.hpp"
#include "runtime/job/options_of_plan.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

double busiest(const prepared_job& j) {
  const auto costs = cost_of(j.plan, j.graph, j.spec);
  double most = 0;
  for (const auto* side : {&costs.bytes_per_step, &costs.received})
    for (const auto& [node, bytes] : *side) most = std::max(most, bytes);
  return most;
}

TEST(suggest, prices_a_job_with_its_reducers) {
  std::vector<node_spec> nodes(4);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
  auto spec = small_spec({.packets = 4, .workers = 4});
  const auto plain = prepare_job(spec, shared_tables(), nodes);
  spec.train.reducer = "tree";
  spec.train.reducer_values.values["arity"] = std::int64_t{2};
  const auto made = prepare_job(spec, shared_tables(), nodes);
  ASSERT_TRUE(made);
  const auto& j = **made;
  ASSERT_NE(busiest(j), busiest(**plain)) << "the reducer does not change the price";
  const auto s = suggest_places(j.spec, j.graph, nodes, {}, options_of_plan(j));
  EXPECT_EQ(s.by_batch.bytes, busiest(j));
  for (const auto& r : s.entries) EXPECT_FALSE(r.write) << j.graph.layers[r.layer].name << ": placed layers cannot use reducers";
}

}  // namespace
}  // namespace troupe::testing
