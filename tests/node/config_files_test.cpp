// Reads, builds and plans every file under configs/, so that a key that changes its meaning is
// noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/job_file.hpp"
#include "tests/node/config_jobs.hpp"

namespace troupe {
namespace {

using namespace testing_configs;

TEST(configs, every_job_is_read_built_and_planned) {
  const auto files = files_in("jobs");
  EXPECT_GE(files.size(), 4u);
  for (const auto& f : files) {
    SCOPED_TRACE(f);
    const auto name = std::filesystem::path(f).filename().string();
    const auto j = job_of_file(name);
    ASSERT_TRUE(j);
    EXPECT_FALSE(j->plan.blocks.empty());
  }
}

TEST(configs, every_cluster_is_read_and_can_run_a_job) {
  for (const auto& f : files_in("clusters")) {
    SCOPED_TRACE(f);
    auto c = read_cluster_file(f);
    if (!c) FAIL() << text_of(c.error());
    const auto& cluster = *c;
    const auto workers = std::count_if(cluster.nodes.begin(), cluster.nodes.end(), [](const node_spec& n) {
      return std::find(n.roles.begin(), n.roles.end(), "worker") != n.roles.end();
    });
    const auto j = prepared("lenet_synthetic.toml", cluster.nodes, {"topology.workers_per_group=" + std::to_string(workers)});
    ASSERT_TRUE(j);
    std::set<std::uint32_t> used;
    for (auto w : j->plan.workers) used.insert(j->plan[w].node);
    EXPECT_EQ(used.size(), static_cast<std::size_t>(workers));
  }
}

// SINGA's topologies (worker groups, workers in each, server groups, servers in each), each on its
// cluster.
TEST(configs, singas_presets_have_singas_topologies) {
  struct preset {
    const char *job, *cluster;
    std::size_t groups, workers, server_groups, servers;
    bool apart;
  };
  for (const auto& p : {preset{"singa_sandblaster.toml", "separate.toml", 1, 3, 1, 2, true},
                        {"singa_allreduce.toml", "local3.toml", 1, 3, 1, 3, false},
                        {"singa_downpour.toml", "separate.toml", 2, 2, 1, 2, true},
                        {"singa_hogwild.toml", "local3.toml", 3, 1, 3, 1, false}}) {
    SCOPED_TRACE(p.job);
    const auto c = read_cluster_file(std::string(TROUPE_SOURCE_DIR) + "/configs/clusters/" + p.cluster);
    const auto j = prepared(p.job, c->nodes);
    ASSERT_TRUE(j);
    EXPECT_EQ(j->plan.groups.size(), p.groups);
    EXPECT_EQ(j->plan.groups[0].count, p.workers);
    EXPECT_EQ(j->plan.server_groups, p.server_groups);
    EXPECT_EQ(j->plan.servers_per_group, p.servers);
    std::set<std::uint32_t> work, serve;
    for (auto w : j->plan.workers) work.insert(j->plan[w].node);
    for (auto s : j->plan.shards) serve.insert(j->plan[s].node);
    if (p.apart)
      for (auto n : serve) EXPECT_FALSE(work.count(n)) << "node " << n;
    else
      EXPECT_EQ(work, serve);
  }
}

// The placed parts of layers, as "layer.part@node packets first+count".
std::vector<std::string> placed_parts(const prepared_job& j) {
  std::vector<std::string> list;
  for (const auto& r : j.plan.roles) {
    if (r.kind != role_kind::stage || r.tester || r.worker < j.plan.ranges.size()) continue;
    list.push_back(r.name.substr(r.name.find('/') + 1) + "@" + j.plan.nodes[r.node].name + " packets " +
                   std::to_string(r.packets.first) + "+" + std::to_string(r.packets.count));
  }
  return list;
}

// The number of a layer's parameter elements, by the node of their shard.
std::map<std::string, std::int64_t> owners(const prepared_job& j, const std::string& layer) {
  std::map<std::string, std::int64_t> by;
  for (const auto& b : j.plan.blocks)
    if (j.graph.params[b.param].full_name.rfind(layer + ".", 0) == 0) by[j.plan.nodes[j.plan[b.shard].node].name] += b.count;
  return by;
}

using parts = std::vector<std::string>;
using owned = std::map<std::string, std::int64_t>;

TEST(configs, singas_hybrid_splits_ip1_by_feature_between_the_workers) {
  const auto j = prepared("singa_hybrid.toml", nodes_of("local2.toml"));
  ASSERT_TRUE(j);
  EXPECT_EQ(placed_parts(*j), (parts{"ip1.0@n1 packets 0+2", "ip1.1@n2 packets 0+2"}));
  EXPECT_EQ(owners(*j, "ip1"), (owned{{"n1", 5 * 1025}, {"n2", 5 * 1025}})) << "each node has its slice only";
  EXPECT_EQ(owners(*j, "conv1"), (owned{{"n1", 32 * 76}}));
}

TEST(configs, multinode_caffes_fc_node_serves_three_conv_nodes) {
  const auto j = prepared("multinode_caffe.toml", nodes_of("multinode_caffe.toml"));
  ASSERT_TRUE(j);
  EXPECT_EQ(placed_parts(*j), (parts{"ip1@fc packets 0+12", "loss@fc packets 0+12", "accuracy@fc packets 0+12"}));
  EXPECT_EQ(owners(*j, "ip1"), (owned{{"fc", 10250}}));
  EXPECT_EQ(owners(*j, "conv3"), (owned{{"ps", 64 * 801}}));
  for (std::uint32_t w = 0; w < 3; ++w)
    EXPECT_EQ(j->plan.nodes[j->plan[j->plan.workers[w]].node].name, "conv" + std::to_string(w + 1));
}

TEST(configs, the_pipeline_has_one_stage_per_node_and_sends_no_weights) {
  const auto j = prepared("pipeline4.toml", nodes_of("pipeline4.toml"));
  ASSERT_TRUE(j);
  EXPECT_EQ(placed_parts(*j), (parts{"ip1+relu1@n1 packets 0+32", "ip2+relu2@n2 packets 0+32", "ip3+relu3@n3 packets 0+32",
                                     "ip4..accuracy@n4 packets 0+32"}));
  const auto costs = cost_of(j->plan, j->graph, j->spec);
  const double there = 128 * 512 * 4, labels = 128 * 4;
  using way = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(
      costs.links,
      (std::map<way, double>{
          {{0, 1}, there}, {{1, 0}, there}, {{1, 2}, there}, {{2, 1}, there}, {{2, 3}, there}, {{3, 2}, there}, {{0, 3}, labels}}));
}

// Krizhevsky 2014, "one weird trick" (docs/partitioning.md): bytes that a conv node sends and
// receives in a step with 256 examples per node.
TEST(configs, alexnets_conv_nodes_move_the_derived_number_of_bytes) {
  const auto moved = [](const std::string& job, const std::vector<std::string>& set) {
    const auto j = prepared(job, nodes_of("alexnet_fc.toml"), set);
    EXPECT_EQ(j->graph.parameter_count, 60965224);
    EXPECT_EQ(j->graph.packet_examples, 256);
    const auto costs = cost_of(j->plan, j->graph, j->spec);
    for (const char* node : {"conv2", "conv3"}) {
      EXPECT_EQ(costs.bytes_per_step.at(node), costs.bytes_per_step.at("conv1"));
      EXPECT_EQ(costs.received.at(node), costs.received.at("conv1"));
    }
    return costs.bytes_per_step.at("conv1") + costs.received.at("conv1");
  };
  const double weights = 2 * 4 * 2334080, pool5 = 2 * 256 * 9216 * 4, labels = 256 * 4;  // in both directions, except the labels
  const auto one = moved("alexnet_fc.toml", {"layer.fc6.partition=none", "layer.fc6.place=fc1"});
  EXPECT_EQ(one, weights + pool5 + labels);
  EXPECT_NEAR(one, 37.5e6, 0.01 * 37.5e6);
  const auto two = moved("alexnet_fc.toml", {});
  EXPECT_EQ(two, weights + 2 * pool5 + labels);
  EXPECT_NEAR(two, 56.4e6, 0.01 * 56.4e6);
  const auto data_parallel =
      moved("alexnet.toml", {"topology.workers_per_group=3", "topology.colocated=false", "pipeline.packets=3", "data.batch=768"});
  EXPECT_EQ(data_parallel, 2.0 * 4 * 60965224);
  EXPECT_NEAR(data_parallel, 487.7e6, 0.01 * 487.7e6);
}

TEST(configs, alexnets_fc6_is_split_over_two_nodes) {
  const auto j = prepared("alexnet_fc.toml", nodes_of("alexnet_fc.toml"));
  ASSERT_TRUE(j);
  EXPECT_EQ(owners(*j, "fc6"), (owned{{"fc1", 2048 * 9217}, {"fc2", 2048 * 9217}}));
  EXPECT_EQ(owners(*j, "fc7"), (owned{{"fc1", 4096 * 4097}})) << "it reads all of fc6: gathered on the first node";
  EXPECT_EQ(owners(*j, "conv2"), (owned{{"ps", 256 * 48 * 25 + 256}}));
}

TEST(configs, lenet_matches_caffes) {
  const auto j = prepared("lenet_fashion.toml", one_node());
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.parameter_count, 431080);
  EXPECT_EQ(j->graph.params[1].spec.lr_multiplier, 2);
  EXPECT_EQ(j->steps_per_epoch, 937u);
  EXPECT_EQ(j->spec.eval.every, 937);
}

TEST(configs, mlp_has_its_parameters) {
  const auto j = prepared("mlp_fashion.toml", one_node());
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.parameter_count, 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10);
}

TEST(configs, cifar10_full_matches_caffes) {
  const auto j = prepared("cifar10_full.toml", one_node());
  ASSERT_TRUE(j);
  EXPECT_EQ(j->graph.parameter_count, 89578);
  const auto& bias = j->graph.params.back();
  const auto& weight = j->graph.params[j->graph.params.size() - 2];
  EXPECT_EQ(weight.full_name, "ip1.weight");
  EXPECT_EQ(weight.spec.decay_multiplier, 250);
  EXPECT_EQ(weight.spec.lr_multiplier, 1);
  EXPECT_EQ(bias.spec.decay_multiplier, 0);
  EXPECT_EQ(bias.spec.lr_multiplier, 2);
}

TEST(configs, cifar10_images_is_cifar10_full_on_another_source) {
  const auto j = prepared("cifar10_images.toml", one_node()), full = prepared("cifar10_full.toml", one_node());
  ASSERT_TRUE(j && full);
  EXPECT_EQ(j->data->example(), full->data->example());
  EXPECT_EQ(j->data->classes(), full->data->classes());
  EXPECT_EQ(j->plan.stages[0].size(), full->plan.stages[0].size());
  ASSERT_EQ(j->graph.params.size(), full->graph.params.size());
  for (std::size_t i = 0; i < j->graph.params.size(); ++i) {
    EXPECT_EQ(j->graph.params[i].full_name, full->graph.params[i].full_name);
    EXPECT_EQ(j->graph.params[i].spec.decay_multiplier, full->graph.params[i].spec.decay_multiplier);
  }
}

TEST(configs, fuse_makes_one_stage_of_lenet) {
  const auto j = prepared("lenet_synthetic.toml", one_node(), {"pipeline.fuse=auto"});
  ASSERT_TRUE(j);
  EXPECT_EQ(j->plan.stages[0].size(), 1u);
}

}  // namespace
}  // namespace troupe
