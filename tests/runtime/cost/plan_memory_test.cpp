// Estimated memory of a plan by role, against counts by hand.
#include "runtime/cost/plan_memory.hpp"

#include <gtest/gtest.h>

#include "runtime/cost/packet_memory.hpp"
#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;

struct held {
  job_spec job;
  model_graph graph;
  job_plan plan;
  plan_memory memory;

  explicit held(job_spec j, const std::vector<std::string>& nodes = {"local"}, const plan_options& o = {})
      : job(std::move(j)),
        graph(try_graph(job).value()),
        plan(make_plan(job, graph, nodes_named(nodes), o).value()),
        memory(memory_of(plan, graph, job)) {}
  held(const held&) = delete;
  const role_memory& of(const std::string& name) const {
    for (const auto& r : plan.roles)
      if (r.name == name) return memory.roles[index_of(r.id)];
    ADD_FAILURE() << "no role " << name;
    return memory.roles[0];
  }
};

// small_net(): packets of two examples of 4 x 5 values and a label; weights of 30 x 20 and 10 x 30,
// and biases.
constexpr double parameters = 4 * (600 + 30 + 300 + 10), loaded = 2 * (4 * 20 + 4);

TEST(plan_memory, one_node_holds_the_memory_of_its_roles) {
  plan_options adam;
  adam.rule_states = 2;
  const held h(small_net(), {"local"}, adam);
  EXPECT_EQ(h.of("shard0").parameters, parameters);
  EXPECT_EQ(h.of("shard0").states, 2 * parameters);
  EXPECT_EQ(h.of("worker0").gradients, 3 * parameters) << "of four packets: a sum of two, a sum of one, and an arriving one";
  EXPECT_EQ(h.of("worker0").parameters, 0) << "it uses the local shard's";
  EXPECT_EQ(h.of("worker0/loader").activations, 2 * loaded) << "one in flight, one being read";
  EXPECT_EQ(h.of("worker0/a").activations, 240);
  EXPECT_EQ(h.of("worker0/relu").activations, 240);
  EXPECT_EQ(h.of("worker0/b").activations, 80);
  EXPECT_EQ(h.of("worker0/loss").activations, 0);
  const auto& node = h.memory.nodes[0];
  EXPECT_EQ(node.parameters, parameters);
  EXPECT_EQ(node.gradients, 3 * parameters);
  EXPECT_EQ(node.states, 2 * parameters);
  EXPECT_EQ(node.activations, 2 * loaded + 240 + 240 + 80 + 240) << "the peak is in b's backward: two activations, two gradients";
}

TEST(plan_memory, a_compressing_worker_holds_codec_residuals) {
  auto job = small_net();
  job.train.compress = "onebit";
  EXPECT_EQ(held(job).of("worker0").gradients, 4 * parameters);
  job.layers[0].compress = "none";
  const auto of_first = held(job).of("worker0").gradients;
  EXPECT_LT(of_first, 4 * parameters);
  EXPECT_GT(of_first, 3 * parameters);
}

TEST(plan_memory, a_tester_holds_one_packet_of_examples) {
  plan_options o;
  o.tester = true;
  EXPECT_EQ(held(small_net(), {"local"}, o).of("tester/loader").activations, loaded);
}

TEST(plan_memory, running_statistics_have_no_rule_states) {
  auto j = small_net();
  j.layers[1] = spec("relu", "normed", {"a"});
  plan_options adam;
  adam.rule_states = 2;
  const held h(j, {"local"}, adam);
  EXPECT_EQ(h.of("shard0").parameters, parameters + 4 * 3 * 30) << "mean, scale and variance";
  EXPECT_EQ(h.of("shard0").states, 2 * (parameters + 4 * 30)) << "the scale is trained";
}

// Kernels of 3 x 3 and 5 x 5: 36 elements per tile, of the kernels and of 256 tiles of inputs and
// outputs.
TEST(plan_memory, a_convolution_includes_winograd_transforms) {
  layer_registry all;
  add_stock_layers(all);
  const auto transforms = [&](std::int64_t high, std::int64_t wide) {
    auto conv = spec("conv", "convolution", {"data"}, 4);
    conv.values.values["kernel_h"] = high;
    conv.values.values["kernel_w"] = wide;
    conv.values = check_options(conv.values, all.find("convolution")->specs);
    auto score = spec("score", "linear", {"conv"}, 4);
    score.values = check_options(score.values, all.find("linear")->specs);
    const auto j = job_of({conv, score, spec("loss", "softmax_loss", {"score", "label"})});
    const auto g = build_graph(j, all, {shape{3, 9, 9}, 4}).value();
    const auto p = make_plan(j, g, nodes_named({"local"})).value();
    std::vector<double> of_layers;
    for (auto s : p.stages[0]) of_layers.push_back(hosted_in(p, g, p[s], dtype::f32).at(0).transforms);
    return of_layers;
  };
  const double some = 36 * 4 * (4 * 3 + (4 + 3) * 256);
  EXPECT_EQ(transforms(3, 3), (std::vector<double>{some, 0, 0}));
  EXPECT_EQ(transforms(5, 5), (std::vector<double>{some, 0, 0}));
  EXPECT_EQ(transforms(3, 5), (std::vector<double>{0, 0, 0})) << "only square kernels";
  EXPECT_EQ(transforms(4, 4), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(transforms(7, 7), (std::vector<double>{0, 0, 0}));
}

TEST(plan_memory, grows_with_the_packets_in_flight) {
  auto j = small_net();
  j.pipeline.sub_solvers = 3;
  const held h(j);
  EXPECT_EQ(h.of("worker0/relu").activations, 3 * 240);
  EXPECT_EQ(h.of("worker0").gradients, 4 * parameters) << "as many sums as packets, not more";
  const auto readers = h.plan[h.plan.loaders[0]].slots;
  EXPECT_EQ(h.of("worker0/loader").activations, (3 + readers) * loaded);
  EXPECT_EQ(h.memory.nodes[0].activations, h.of("worker0/loader").activations + 3 * 800);
}

// Shard 0 is on n1, shard 1 on n2. Each has half of the elements; the split is within a.weight.
TEST(plan_memory, two_nodes_hold_copies_of_each_others_blocks) {
  auto j = small_net(16, 8);
  j.topology.workers_per_group = j.topology.servers_per_group = 2;
  const held h(j, {"n1", "n2"});
  double all = 0, cut = 0, first = 0, second_whole = 0;
  for (const auto& b : h.plan.blocks) {
    const auto bytes = 4 * static_cast<double>(b.count);
    const bool whole = b.count == h.graph.params[b.param].spec.dims.count(), of_first = b.shard == h.plan.shards[0];
    all += bytes, cut += whole ? 0 : bytes, first += of_first ? bytes : 0, second_whole += whole && !of_first ? bytes : 0;
  }
  ASSERT_EQ(all, parameters);
  ASSERT_EQ(cut, 2400) << "a.weight";
  ASSERT_GT(second_whole, 0);
  EXPECT_EQ(h.of("shard0").parameters, 2 * first) << "and the previous values, for surviving state";
  EXPECT_EQ(h.of("shard1").parameters, 2 * (all - first));
  EXPECT_EQ(h.of("shard0").gradients + h.of("shard1").gradients, cut) << "there is no gradient memory to compute new weights in";
  EXPECT_EQ(h.of("worker0").parameters, cut + second_whole)
      << "cut parameters are assembled, others are copied from the other node";
}

}  // namespace
}  // namespace troupe
