// Estimated bytes that a plan sends per step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/plan/plan.hpp"
#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;

plan_costs costs(const job_spec& j, const std::vector<node_spec>& nodes, std::int64_t& parameters) {
  const auto g = try_graph(j).value();
  parameters = g.parameter_count;
  return cost_of(make_plan(j, g, nodes).value(), g, j);
}

TEST(plan_costs, one_node_sends_nothing) {
  std::int64_t n = 0;
  const auto c = costs(small_net(), nodes_named({"local"}), n);
  EXPECT_EQ(c.bytes_per_step.at("local"), 0);
  EXPECT_GT(c.memory.at("local"), static_cast<double>(4 * n));
}

TEST(plan_costs, two_workers_exchange_all_parameters_with_a_separate_server) {
  auto nodes = nodes_named({"s", "w0", "w1"});
  nodes[0].roles = {"coordinator", "server"};
  nodes[1].roles = nodes[2].roles = {"worker"};
  auto j = small_net(16, 8);
  j.topology.workers_per_group = 2;
  std::int64_t n = 0;
  auto c = costs(j, nodes, n);
  const double w = 4.0 * static_cast<double>(n);
  EXPECT_EQ(c.bytes_per_step.at("w0"), w) << "one block of the tree: packets 0-3";
  EXPECT_EQ(c.bytes_per_step.at("w1"), w);
  EXPECT_EQ(c.bytes_per_step.at("s"), 2 * w);
  j = small_net(18, 6);  // 0-2 and 3-5: two blocks each
  j.topology.workers_per_group = 2;
  j.precision = "f64";
  c = costs(j, nodes, n);
  EXPECT_EQ(c.bytes_per_step.at("w0"), 4 * w);
  EXPECT_EQ(c.bytes_per_step.at("w1"), 4 * w);
  EXPECT_EQ(c.bytes_per_step.at("s"), 4 * w);
}

TEST(plan_costs, a_local_shard_costs_no_traffic) {
  auto j = small_net(16, 8);
  j.topology.workers_per_group = 2;
  j.topology.servers_per_group = 2;
  std::int64_t n = 0;
  const auto c = costs(j, nodes_named({"n0", "n1"}), n);
  // n0 sends its sums of shard 1's blocks, and shard 0's weights to n1: together all parameters
  // once.
  EXPECT_EQ(c.bytes_per_step.at("n0"), 4.0 * static_cast<double>(n));
  EXPECT_EQ(c.bytes_per_step.at("n1"), 4.0 * static_cast<double>(n));
}

}  // namespace
}  // namespace troupe
