// The example of an actor-based layer: its statistics are over the whole step, for any placement of
// packets.
#include "ops/check_layer.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

std::shared_ptr<const tables> with_plugin() {
  static const auto all = [] {
    auto t = std::make_shared<tables>(stock_tables());
    register_plugin(*t);
    return t;
  }();
  return all;
}

// The small net with the normalisation between pool1 and its two consumers, without dropout, so
// that results of one packet and of four packets can be compared directly.
job_spec normalised(const shape_of_job& s) {
  auto j = small_spec(s);
  j.data.batch = 8;
  std::erase_if(j.layers, [](const layer_spec& l) { return l.name == "drop"; });
  layer_spec norm;
  norm.name = "norm";
  norm.type = "cross_batch_norm";
  norm.inputs = {"pool1"};
  norm.values = check_options({}, with_plugin()->layers.find(norm.type)->specs);
  for (auto& l : j.layers)
    for (auto& in : l.inputs) {
      if (in == "pool1") in = "norm";
      if (in == "drop") in = "sum";
    }
  j.layers.insert(j.layers.begin() + 3, norm);
  return j;
}

run_result run(const shape_of_job& s, std::uint64_t seed, std::uint32_t nodes, device& d) {
  std::vector<node_spec> list(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) list[i].name = "n" + std::to_string(i);
  auto made = prepare_job(normalised(s), with_plugin(), list);
  if (!made) {
    for (const auto& b : made.error()) ADD_FAILURE() << b.to_string();
    return {};
  }
  sim::world_config c;
  c.seed = seed;
  c.dev = &d;
  return run_in_world(*made, c);
}

TEST(cross_batch_norm_example, passes_check_layer) {
  const auto dev = make_cpu_device();
  for (const auto& finding : check_layer_type(*with_plugin()->layers.find("cross_batch_norm"), *dev)) ADD_FAILURE() << finding;
}

TEST(cross_batch_norm_example, weights_do_not_depend_on_workers_or_delivery_order) {
  const auto dev = make_cpu_device();
  shape_of_job one;
  one.sub_solvers = 4;
  const auto want = run(one, 1, 1, *dev).bytes();
  ASSERT_FALSE(want.empty());
  for (std::uint32_t workers : {1u, 2u, 3u, 4u})
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      shape_of_job s = one;
      s.workers = workers;
      s.shards = 2;
      ASSERT_EQ(run(s, seed, workers, *dev).bytes(), want) << workers << " workers, seed " << seed;
    }
}

// Four packets with joint statistics give the mean, variance and gradients of one packet.
TEST(cross_batch_norm_example, four_packets_equal_one_batch) {
  const auto dev = make_cpu_device();
  shape_of_job four, one;
  four.steps = one.steps = 1;
  four.sub_solvers = 4;
  one.packets = 1;
  const auto a = run(four, 1, 1, *dev), b = run(one, 1, 1, *dev);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    const auto &x = a.weights[i].second, &y = b.weights[i].second;
    for (std::int64_t k = 0; k < x.count(); ++k)
      ASSERT_NEAR(x.data<float>()[k], y.data<float>()[k], 1e-5) << a.weights[i].first << "[" << k << "]";
  }
}

TEST(cross_batch_norm_example, refuses_too_few_sub_solvers_before_the_job_starts) {
  shape_of_job s;
  s.sub_solvers = 2;
  node_spec n;
  n.name = "local";
  auto made = prepare_job(normalised(s), with_plugin(), {n});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error()[0].message.find("sub_solvers = 2"), std::string::npos);
}

}  // namespace
}  // namespace troupe::testing
