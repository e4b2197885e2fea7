// Invariant of bsp under faults: every gradient is applied exactly once, whether messages are lost,
// repeated, reordered or late.
#include "tests/sim/mode_run.hpp"

namespace troupe::testing {
namespace {

// The weights of a run without faults and with one worker: the reference of every run with the same
// packets.
std::string undisturbed(mode_shape s, device& dev) {
  s.workers = 1;
  s.shards = 1;
  return run({.job = prepare_mode(s), .config = draw_world(1, 0, &dev)}).bytes();
}

TEST(laws_bsp, weights_under_faults_equal_those_of_one_undisturbed_worker) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    const auto shape = draw_shape(seed, {.mode = "bsp", .rule = "momentum"});
    const auto want = undisturbed(shape, *dev);
    ASSERT_FALSE(want.empty());
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

}  // namespace
}  // namespace troupe::testing
