// Invariants of downpour (Dean et al. 2012): every gradient is in one push and is applied once,
// including gradients held back until the flush; one worker that pushes and fetches at every step
// is plain training, bit for bit.
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

TEST(laws_downpour, one_worker_with_n_push_and_n_fetch_1_is_plain_training) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "downpour", .rule = seed % 2 ? "adam" : "momentum", .lr = 0.02});
    shape.workers = 1;
    shape.packets = 1 + static_cast<std::uint32_t>(seed % 3);
    const auto job = prepare_mode(shape);
    plain_loop plain(prepare_mode([&] {
                       auto s = shape;
                       s.mode = "bsp";
                       return s;
                     }()),
                     make_cpu_device());
    while (plain.steps() < shape.steps) plain.step();
    run_result want;
    want.weights = plain.weights();
    const auto got = run({.job = job, .config = draw_world(seed, 1, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_TRUE(got.bytes() == want.bytes()) << "seed " << seed;
  }
}

TEST(laws_downpour, every_gradient_is_applied_once_including_held_back_ones) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    const auto shape = downpour_tally(seed);
    push_checker once;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&once}});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(off_ledger(got, shape), "") << "seed " << seed;
    ASSERT_GT(once.checks(), 0u);
    sums.add(got.counts);
  }
  sums.expect_all();
}

TEST(laws_downpour, gradient_of_a_group_is_applied_once_per_step) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(100)) {
    auto shape = draw_shape(seed, {.mode = "downpour", .net = "tally"});
    shape.groups = 1 + static_cast<std::uint32_t>(seed % 3);
    shape.workers = shape.groups * (2 + static_cast<std::uint32_t>(seed % 4));
    shape.packets = 2 * shape.workers;
    shape.lr = -static_cast<double>(shape.packets / shape.groups);
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(off_ledger(got, shape), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::testing
