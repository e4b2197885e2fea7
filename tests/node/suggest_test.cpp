// `troupe plan --suggest` on real nets: fully connected layers leave the workers' data parallelism
// where that pays, convolutions stay.
#include "runtime/cost/suggest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/job/job.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe {
namespace {

using ::testing::StartsWith;

// Four workers with 256 examples and a shard each, unless `set` says otherwise.
std::shared_ptr<prepared_job> prepared(const std::string& file, std::vector<std::string> set, const std::vector<node_spec>& nodes) {
  const auto all = std::make_shared<const tables>(stock_tables());
  if (nodes.size() == 4)
    for (const char* s : {"topology={workers_per_group=4,servers_per_group=4}", "pipeline={packets=4}", "data.batch=1024"})
      set.emplace_back(s);
  auto spec = read_job_file(std::string(TROUPE_SOURCE_DIR) + "/configs/" + file, *all, set);
  if (!spec) return ADD_FAILURE() << spec.error().front().to_string(), nullptr;
  auto made = prepare_job(*std::move(spec), all, nodes);
  if (!made) return ADD_FAILURE() << made.error().front().to_string(), nullptr;
  return *made;
}

std::vector<node_spec> four_nodes() {
  std::vector<node_spec> list(4);
  for (std::size_t i = 0; i < 4; ++i) list[i].name = "n" + std::to_string(i + 1);
  return list;
}

// The cost of a job in bytes: that of the busiest direction of a node.
double busiest(const prepared_job& j) {
  const auto costs = cost_of(j.plan, j.graph, j.spec);
  double most = 0;
  for (const auto* side : {&costs.bytes_per_step, &costs.received})
    for (const auto& [node, bytes] : *side) most = std::max(most, bytes);
  return most;
}

std::vector<std::string> keys_of(const suggestion& s, const prepared_job& j) {
  std::vector<std::string> set;
  for (const auto& r : s.entries) {
    if (!r.write) continue;
    set.push_back("layer." + j.graph.layers[r.layer].name + ".partition=" + r.partition);
    if (!r.place.empty()) set.push_back("layer." + j.graph.layers[r.layer].name + ".place=" + r.place);
  }
  return set;
}

TEST(suggest, alexnets_convolutions_are_split_by_batch_and_its_fc_layers_not) {
  const auto j = prepared("jobs/alexnet.toml", {}, four_nodes());
  ASSERT_TRUE(j);
  const auto s = suggest_places(j->spec, j->graph, four_nodes());
  ASSERT_EQ(s.entries.size(), 8u);
  for (const auto& r : s.entries) {
    const auto& name = j->graph.layers[r.layer].name;
    EXPECT_EQ(r.partition != "batch", name.starts_with("fc")) << name << " " << r.partition;
    EXPECT_EQ(r.data_parallel < r.model_parallel, name.starts_with("conv")) << name;
  }
  EXPECT_EQ(s.entries[5].data_parallel, 2.0 * 4 * 37752832) << "fc6's weights, up and down";
  EXPECT_EQ(s.entries[5].model_parallel, 2.0 * 4 * 256 * 9216) << "pool5 and its gradient";
  EXPECT_LT(s.suggested.bytes, 0.5 * s.by_batch.bytes);
  EXPECT_LT(s.suggested.seconds, s.by_batch.seconds);
  // The job with the suggested keys has the stated cost.
  const auto k = prepared("jobs/alexnet.toml", keys_of(s, *j), four_nodes());
  ASSERT_TRUE(k);
  EXPECT_TRUE(k->plan.placed);
  EXPECT_EQ(busiest(*j), s.by_batch.bytes);
  EXPECT_EQ(busiest(*k), s.suggested.bytes);
}

// With fast nodes and slow links, splitting by feature only adds cost.
TEST(suggest, slow_links_and_fast_nodes_put_the_fc_layers_on_one_node) {
  const auto j = prepared("jobs/alexnet.toml", {}, four_nodes());
  ASSERT_TRUE(j);
  const auto s = suggest_places(j->spec, j->graph, four_nodes(), {1.25e8, 1e14});
  for (const auto& r : s.entries) {
    const bool fc = j->graph.layers[r.layer].name.starts_with("fc");
    EXPECT_EQ(r.partition, fc ? "none" : "batch") << j->graph.layers[r.layer].name;
    EXPECT_EQ(r.place, fc ? "n1" : "");
  }
  const auto k = prepared("jobs/alexnet.toml", keys_of(s, *j), four_nodes());
  ASSERT_TRUE(k);
  EXPECT_EQ(busiest(*k), s.suggested.bytes);
}

TEST(suggest, places_the_first_layer_too_when_that_costs_less) {
  const auto j = prepared("jobs/mlp_fashion.toml", {"data.batch=64"}, four_nodes());
  ASSERT_TRUE(j);
  const auto s = suggest_places(j->spec, j->graph, four_nodes(), {1.25e8, 1e14});
  ASSERT_FALSE(s.entries.empty());
  EXPECT_NE(s.entries.front().partition, "batch");
  const auto k = prepared("jobs/mlp_fashion.toml", keys_of(s, *j), four_nodes());
  ASSERT_TRUE(k);
  EXPECT_EQ(busiest(*k), s.suggested.bytes);
}

TEST(suggest, places_in_the_job_are_ignored) {
  auto c = read_cluster_file(std::string(TROUPE_SOURCE_DIR) + "/configs/clusters/alexnet_fc.toml");
  const auto nodes = c->nodes;
  const auto j = prepared("jobs/alexnet_fc.toml", {}, nodes);
  ASSERT_TRUE(j);
  const auto s = suggest_places(j->spec, j->graph, nodes);
  EXPECT_GT(s.by_batch.bytes, 3 * 4.0 * 60965224 - 1) << "one server for three workers";
  for (const auto& r : s.entries) {
    const auto& name = j->graph.layers[r.layer].name;
    EXPECT_EQ(r.partition != "batch", name.starts_with("fc")) << name;
    if (!r.place.empty()) {
      EXPECT_FALSE(r.place.starts_with("conv")) << "nodes without a worker have free time: " << r.place;
    }
  }
}

TEST(suggest, puts_whole_layers_on_nodes_without_a_worker_when_there_are_some) {
  auto nodes = four_nodes();
  nodes.emplace_back();
  nodes.back().name = "free";
  nodes.back().roles = {"server"};
  const auto j = prepared("jobs/alexnet.toml",
                          {"topology={workers_per_group=4,servers_per_group=4}", "pipeline={packets=4}", "data.batch=1024"}, nodes);
  ASSERT_TRUE(j);
  const auto s = suggest_places(j->spec, j->graph, nodes, {1.25e8, 1e14});
  EXPECT_THAT(s.entries, ::testing::Contains(::testing::Field(&suggestion::entry::place, "free")));
}

TEST(suggest, nets_of_convolutions_stay_by_batch) {
  for (const char* file : {"jobs/nin.toml", "jobs/googlenet.toml"}) {
    SCOPED_TRACE(file);
    const auto j = prepared(file, {}, four_nodes());
    ASSERT_TRUE(j);
    const auto s = suggest_places(j->spec, j->graph, four_nodes());
    EXPECT_GT(s.plans, 2 * s.entries.size()) << "other plans were tried";
    for (const auto& r : s.entries) {
      EXPECT_EQ(r.partition, "batch") << j->graph.layers[r.layer].name;
      EXPECT_FALSE(r.write);
    }
    EXPECT_EQ(s.suggested.seconds, s.by_batch.seconds);
    EXPECT_EQ(busiest(*j), s.by_batch.bytes);
  }
}

}  // namespace
}  // namespace troupe
