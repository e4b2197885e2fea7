// Invariants of reducers with shards colocated with workers, or with two levels: for any path of a
// sum the bits equal those of `server`. The bits of a ring depend only on the number of workers,
// and equal those of the others to rounding.
#include <cmath>

#include "runtime/job/auto_reducer.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

std::string undisturbed_server(mode_shape s, device& dev) {
  s.mode = "bsp", s.reducer = "server", s.options.clear();
  s.workers = s.shards = s.groups = s.server_groups = 1;
  s.worker_nodes = 0;
  return run({.job = prepare_mode(s), .config = draw_world(1, 0, &dev)}).bytes();
}

mode_shape drawn(std::uint64_t seed, const std::string& reducer) {
  auto s = draw_shape(seed, {.mode = "bsp", .rule = "momentum", .reducer = reducer});
  s.worker_nodes = 1 + static_cast<std::uint32_t>(seed * 7 % s.workers);
  if (seed % 3 == 0) s.max_block = 64;  // many blocks per layer
  return s;
}

class laws_reducers : public ::testing::TestWithParam<mode_shape> {};

TEST_P(laws_reducers, equal_the_server_reducer_bit_for_bit) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    auto shape = drawn(seed, GetParam().reducer);
    shape.between = GetParam().between;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.worker_nodes, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), undisturbed_server(shape, *dev))
        << "seed " << seed << ", workers " << shape.workers << " on " << shape.worker_nodes << " nodes";
    sums.add(got.counts);
  }
  sums.expect_all();
}

INSTANTIATE_TEST_SUITE_P(all, laws_reducers,
                         ::testing::Values(mode_shape{.reducer = "sharded"},
                                           mode_shape{.reducer = "hierarchical", .between = "sharded"},
                                           mode_shape{.reducer = "hierarchical", .between = "server"},
                                           mode_shape{.reducer = "hierarchical", .between = "tree"}),
                         [](const auto& i) {
                           return i.param.reducer == "sharded" ? i.param.reducer : i.param.reducer + "_" + i.param.between;
                         });

std::vector<double> values_of(const mode_result& r) {
  std::vector<double> all;
  for (const auto& [name, t] : r.weights) {
    const auto here = looked_at(t);
    all.insert(all.end(), here.data<double>(), here.data<double>() + here.count());
  }
  return all;
}

double farthest(const mode_result& a, const mode_result& b) {
  double most = 0;
  const auto x = values_of(a), y = values_of(b);
  EXPECT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    most = std::max(most, std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i])));
  return most;
}

// The order of a ring's sum depends only on the number of workers.
TEST(laws_ring, bits_do_not_depend_on_faults_and_match_server_to_rounding) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t other_bits = 0;
  for (const auto seed : law_seeds()) {
    auto shape = drawn(seed, "ring");
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.worker_nodes, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    auto calm = shape;
    calm.worker_nodes = 0;
    calm.sub_solvers = 1;
    const auto again = run({.job = prepare_mode(calm), .config = draw_world(1, 0, dev.get())});
    ASSERT_EQ(got.bytes(), again.bytes()) << "seed " << seed << ", workers " << shape.workers;
    shape.reducer = "server", shape.worker_nodes = 0;
    const auto server = run({.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())});
    ASSERT_LT(farthest(got, server), 1e-12) << "seed " << seed;  // f64
    other_bits += got.bytes() != server.bytes();
    sums.add(got.counts);
  }
  EXPECT_GT(other_bits, 0u) << "the ring never had another order of sums";
  sums.expect_all();
}

// Returns the largest and the smallest bytes per step of a node, by the plan.
std::pair<double, double> busiest_and_laziest(const prepared_job& j) {
  const auto costs = cost_of(j.plan, j.graph, j.spec);
  double most = 0, least = 1e300;
  for (std::size_t n = 1; n < j.plan.nodes.size(); ++n) {
    const auto at = costs.bytes_per_step.find(j.plan.nodes[n].name);
    const auto sent = at == costs.bytes_per_step.end() ? 0.0 : at->second;
    most = std::max(most, sent), least = std::min(least, sent);
  }
  return {most, least};
}

TEST(reducer_bytes, every_node_of_sharded_and_ring_sends_2_w_n_minus_1_over_n) {
  for (const char* reducer : {"sharded", "ring"})
    for (std::uint32_t n : {2u, 4u, 8u}) {
      const auto j = prepare_mode({.workers = n, .layers = 1, .reducer = reducer, .columns = 16 * 64});
      const double w = 16 * 64 * 8;  // f64
      const auto [most, least] = busiest_and_laziest(*j);
      EXPECT_NEAR(most, 2 * w * (n - 1) / n, 0.01 * w) << reducer << " " << n;
      EXPECT_NEAR(least, 2 * w * (n - 1) / n, 0.01 * w) << reducer << " " << n;
    }
}

TEST(reducer_bytes, hierarchical_bytes_do_not_grow_with_workers_per_node) {
  double four = 0;
  for (std::uint32_t each : {1u, 2u, 4u}) {
    const auto j =
        prepare_mode({.workers = 4 * each, .layers = 1, .reducer = "hierarchical", .worker_nodes = 4, .columns = 16 * 64});
    const auto [most, least] = busiest_and_laziest(*j);
    if (each == 1) four = most;
    EXPECT_EQ(most, four) << each;
    EXPECT_NEAR(least, four, 0.01 * four) << each;
  }
}

std::string refusal(const mode_shape& s, const std::function<void(job_spec&, std::vector<node_spec>&)>& change) {
  auto spec = mode_spec(s, *shared_mode_tables());
  std::vector<node_spec> nodes(2);
  nodes[0].name = "n1", nodes[1].name = "n2";
  change(spec, nodes);
  auto made = prepare_job(spec, shared_mode_tables(), nodes);
  return made ? "" : made.error().front().to_string();
}

TEST(reducer_mistakes, are_refused_with_the_reducers_requirement) {
  EXPECT_EQ(refusal({.reducer = "sharded"}, [](auto&, auto&) {}), "");
  EXPECT_NE(refusal({.reducer = "sharded"}, [](auto& j, auto&) { j.topology.servers_per_group = 3; })
                .find("reducer \"sharded\" determines the number of shards"),
            std::string::npos);
  EXPECT_NE(refusal({.reducer = "ring"}, [](auto&, auto& nodes) { nodes[1].roles = {"worker"}; })
                .find("node 'n2' does not have the role \"server\""),
            std::string::npos);
  EXPECT_NE(refusal({.mode = "ssp", .reducer = "ring"}, [](auto&, auto&) {}).find("does not go through reducers"),
            std::string::npos);
}

std::string chosen(const mode_shape& s, std::uint32_t nodes, bool all_may_have_shards = true) {
  std::vector<node_spec> list(nodes);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    list[n].name = "n" + std::to_string(n + 1);
    if (!all_may_have_shards && n > 0) list[n].roles = {"worker"};
  }
  auto spec = mode_spec(s, *shared_mode_tables());
  spec.train.reducer = "auto";
  auto made = prepare_job(spec, shared_mode_tables(), list);
  if (!made) return made.error().front().to_string();
  return (*made)->spec.train.reducer;
}

TEST(reducer_auto, picks_the_reducer_with_the_least_loaded_busiest_node) {
  constexpr std::int64_t large = 1 << 20;  // parameters: 8 MiB
  EXPECT_EQ(chosen({.workers = 1, .layers = 1, .columns = large}, 1), "server") << "no bytes are sent";
  EXPECT_EQ(chosen({.workers = 2, .layers = 1, .columns = large}, 2), "server") << "all are equal, and this is the simplest";
  EXPECT_EQ(chosen({.workers = 8, .layers = 1, .columns = large}, 8), "sharded");
  EXPECT_EQ(chosen({.workers = 8, .layers = 1, .columns = large}, 2), "hierarchical") << "four workers on each of two nodes";
  EXPECT_EQ(chosen({.mode = "ssp", .workers = 8, .layers = 1, .columns = large}, 2), "server")
      << "pushes of ssp are not summed on the way";
  EXPECT_EQ(chosen({.mode = "ssp", .workers = 8, .layers = 1, .columns = large}, 8), "sharded");
  EXPECT_EQ(chosen({.workers = 16, .layers = 1, .columns = large}, 16, false), "tree") << "only one node may have shards";
  EXPECT_EQ(chosen({.workers = 4, .layers = 1, .columns = 8}, 4), "server") << "eight numbers";
}

// Prices are those of the plans, which the simulator counts too.
TEST(reducer_auto, prices_bytes_messages_and_hops) {
  const auto price = [](const char* reducer) {
    const auto j = prepare_mode({.workers = 4, .layers = 1, .reducer = reducer, .columns = 16 * 64});
    return cost_of_exchange(j->plan, j->graph, j->spec);
  };
  const double w = 16 * 64 * 8 + 8;  // weights and the bias
  EXPECT_EQ(price("server").bytes, 4 * w) << "the shard is on another node than the workers";
  EXPECT_EQ(price("server").messages, 2 * 8) << "a push and an answer for each worker, of both blocks";
  EXPECT_EQ(price("server").hops, 2u);
  EXPECT_NEAR(price("sharded").bytes, 1.5 * w, 24);
  EXPECT_EQ(price("sharded").messages, 12 + 6) << "weights: 6 each for the node's worker and shard; bias: 6 for its shard";
  EXPECT_EQ(price("ring").hops, 8u);
  EXPECT_EQ(price("tree").hops, 8u) << "worker, leaf, inner, root, shard; and back";
}

// `sharded` has no roles between workers and shards, so it works in every mode.
TEST(laws_sharded, runs_in_every_mode_with_shards) {
  const auto dev = make_cpu_device();
  for (const char* mode : {"bsp", "ssp", "downpour", "easgd", "eamsgd", "sandblaster"})
    for (const auto seed : law_seeds(4)) {
      auto shape = draw_shape(seed, {.mode = mode, .reducer = "sharded"});
      shape.lr = 0.01;
      if (mode == std::string("eamsgd")) shape.rule = "nesterov";
      const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, 0, dev.get())});
      ASSERT_EQ(got.violation, "") << mode << ", seed " << seed;
    }
}

}  // namespace
}  // namespace troupe::testing
