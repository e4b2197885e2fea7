// Invariants of encoded gradients: the bits do not depend on network faults, a codec that loses no
// value changes no bit, and the bytes match the formula. Convergence to the minimiser:
// laws_least_squares_test.cpp.
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

constexpr const char* codecs[] = {"fp16", "bf16", "int8", "e3m0", "onebit", "topk", "threshold"};

mode_shape drawn(std::uint64_t seed) {
  auto s = draw_shape(seed, {.mode = "bsp", .rule = "momentum", .reducer = seed % 3 == 1 ? "sharded" : "server"});
  s.worker_nodes = 1 + static_cast<std::uint32_t>(seed * 7 % s.workers);
  if (seed % 3 == 0) s.max_block = 64;  // many blocks of every layer
  s.compress = codecs[seed % std::size(codecs)];
  s.fraction = 0.1, s.threshold = 0.01;
  return s;
}

TEST(laws_codecs, weights_do_not_depend_on_network_faults) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t other_bits = 0;
  for (const auto seed : law_seeds()) {
    auto shape = drawn(seed);
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.worker_nodes, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed << " " << shape.compress;
    shape.worker_nodes = 0;
    shape.sub_solvers = 1;
    const auto calm = run({.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())});
    ASSERT_EQ(got.bytes(), calm.bytes()) << "seed " << seed << " " << shape.compress << ", workers " << shape.workers;
    shape.compress = "none";
    other_bits += calm.bytes() != run({.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())}).bytes();
    sums.add(got.counts);
  }
  EXPECT_GT(other_bits, 0u) << "no codec changed any bit";
  sums.expect_all();
}

TEST(laws_codecs, lossless_codecs_change_no_bit) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds()) {
    auto shape = drawn(seed);
    shape.compress = seed % 2 ? "topk" : "threshold";
    shape.fraction = 1, shape.threshold = 1e-300;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.worker_nodes, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    shape.compress = "none";
    ASSERT_EQ(got.bytes(), run({.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())}).bytes()) << "seed " << seed;
  }
}

TEST(laws_codecs, planned_bytes_match_the_formula) {
  for (const auto& [codec, share] :
       {std::pair{"fp16", 0.5}, {"bf16", 0.5}, {"int8", 0.251}, {"onebit", 0.0333}, {"topk", 0.02}, {"e3m0", 0.129}}) {
    mode_shape shape{.workers = 2, .layers = 1, .columns = 1 << 15};
    shape.precision = "fp32";
    const auto plain = prepare_mode(shape);
    shape.compress = codec;
    const auto less = prepare_mode(shape);
    const double w = 4.0 * ((1 << 15) + 1);
    const auto pushed = [](const prepared_job& j) {
      return cost_of(j.plan, j.graph, j.spec).bytes_per_step[j.plan.nodes[j.plan[j.plan.workers[1]].node].name];
    };
    EXPECT_NEAR(pushed(*plain), w, 1);
    EXPECT_NEAR(pushed(*less) / w, share, share * 0.01) << codec;
  }
}

}  // namespace
}  // namespace troupe::testing
