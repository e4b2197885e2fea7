// Tests that the roles of a job give the same bits as CAF actors and in sim::world, in any order of
// delivery.
#include <cstdlib>

#include "tests/actors/embedded_support.hpp"
#include "tests/environment.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

std::uint64_t seeds(std::uint64_t in_ci) { return from_environment("TROUPE_SEEDS", in_ci); }

std::string simulated(const std::shared_ptr<prepared_job>& j, std::uint64_t seed, device& d) {
  SCOPED_TRACE(seed);
  sim::world_config c;
  c.seed = seed;
  c.dev = &d;
  return simulated_hash(j, c, &role_plan::worker);  // a node per worker
}

TEST(embedded_sim, small_net_has_the_same_bits_in_any_delivery_order) {
  const overrides set{"topology.workers_per_group=3", "topology.servers_per_group=2", "pipeline.sub_solvers=2",
                      "train.finish.steps=5"};
  const auto j = job_of(lenet_like(), set);
  const auto want = embedded(j).weights_sha256;
  ASSERT_FALSE(want.empty());
  const auto d = make_cpu_device();
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) ASSERT_EQ(simulated(j, seed, *d), want) << "seed " << seed;
}

// The job of configs/jobs/lenet_fashion.toml itself, for two steps; the data set does not matter.
TEST(embedded_sim, lenet_fashion_has_the_same_bits_in_any_delivery_order) {
  const overrides set{"topology.workers_per_group=2", "topology.servers_per_group=2", "pipeline.packets=4", "eval.every=0",
                      "train.finish={steps=2}"};
  auto read = read_job_file(TROUPE_SOURCE_DIR "/configs/jobs/lenet_fashion.toml", stock_tables(), set);
  auto j = take(std::move(read));
  ASSERT_NE(j, nullptr);
  const auto want = embedded(j).weights_sha256;
  const auto d = make_cpu_device();
  struct no_test_split final
      : troupe::source {  // the final evaluation of 10,000 images is not tested here and would take most of the time
    std::shared_ptr<const source> real;
    shape example() const override { return real->example(); }
    std::int64_t classes() const override { return real->classes(); }
    std::int64_t size(split s) const override { return s == split::train ? real->size(s) : 0; }
    void read(split s, const std::vector<std::int64_t>& i, tensor& data, tensor& label) const override {
      real->read(s, i, data, label);
    }
  };
  auto quick = std::make_shared<no_test_split>();
  quick->real = j->data;
  j->data = quick;
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) ASSERT_EQ(simulated(j, seed, *d), want) << "seed " << seed;
}

}  // namespace
}  // namespace troupe
