// Laws of bsp under faults: every gradient is applied exactly once, whatever is lost, repeated,
// reordered, late, or crashes.
#include "tests/sim/mode_run.hpp"

namespace troupe::testing {
namespace {

// Weights after a run without faults, one worker: the reference of every run with the same packets.
std::string undisturbed(mode_shape s, device& dev) {
  s.workers = 1;
  s.shards = 1;
  return run({.job = prepare_mode(s), .config = draw_world(1, 0, &dev)}).bytes();
}

TEST(laws_bsp, weights_under_faults_and_restarts_are_those_of_one_undisturbed_worker) {
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
