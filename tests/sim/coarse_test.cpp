// Coarse jobs: the parameters and the work of a model in a few buckets, run by the real roles.
#include "runtime/job/coarse.hpp"

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

double flops_of(const model_graph& g) { return g.flops_per_packet(); }

TEST(coarse, keeps_parameters_and_work) {
  const auto j = prepare({.packets = 4, .workers = 2});
  for (std::uint32_t k : {1u, 2u, 3u, 4u, 7u, 64u}) {
    const auto g = coarse_graph(j->graph, k);
    ASSERT_EQ(g.layers.size(), k);
    EXPECT_EQ(g.params.size(), k);
    EXPECT_EQ(g.parameter_count, j->graph.parameter_count) << k;
    EXPECT_NEAR(flops_of(g), flops_of(j->graph), 1e-6 * flops_of(j->graph)) << k;
    EXPECT_TRUE(g.layers.back().maths->is_loss());
    std::int64_t least = g.parameter_count, most = 0, offset = 0;
    for (const auto& p : g.params) {
      least = std::min(least, p.spec.dims.count());
      most = std::max(most, p.spec.dims.count());
      EXPECT_EQ(p.offset, offset);
      offset += p.spec.dims.count();
    }
    EXPECT_LE(most - least, 1) << "buckets have equal sizes";
  }
}

TEST(coarse, has_at_most_one_bucket_per_parameter_element) {
  const auto j = prepare({});
  EXPECT_EQ(static_cast<std::int64_t>(coarse_graph(j->graph, 100000).layers.size()), j->graph.parameter_count);
  EXPECT_EQ(coarse_graph(j->graph, 0).layers.size(), 1u);
}

TEST(coarse, runs_with_at_most_four_roles_per_node) {
  std::vector<node_spec> nodes(8);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
  const auto full = prepare({.packets = 8, .workers = 8, .steps = 6}, 8);
  auto made = make_coarse(*full, 4, nodes);
  ASSERT_TRUE(made);
  const auto j = *made;
  EXPECT_LE(j->plan.roles.size(), 8u * 4 + 2);
  const auto r = run_in_world(j, {});
  std::size_t steps = 0;
  for (const auto& e : r.events) {
    steps += e.is<step_event>() ? 1 : 0;
    EXPECT_FALSE(e.is<eval_event>()) << "a coarse job has no test data";
  }
  EXPECT_EQ(steps, 6u);
}

}  // namespace
}  // namespace troupe::testing
