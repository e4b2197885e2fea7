// The given initial weights of a job reach every shard in any mode, topology and type.
#include "tests/sim/mode_job.hpp"

namespace troupe::testing {
namespace {

using named = std::vector<std::pair<std::string, tensor>>;

class laws_given : public ::testing::Test {
 protected:
  static run_result run(const std::shared_ptr<prepared_job>& j, device* dev) {
    sim::world_config c;
    c.dev = dev;
    return run_in_world(j, c);
  }
  std::unique_ptr<device> dev_ = make_cpu_device();
};

void expect_near(const named& got, const named& want, double within) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, want[i].first);
    ASSERT_EQ(got[i].second.count(), want[i].second.count());
    for (std::int64_t k = 0; k < got[i].second.count(); ++k)
      EXPECT_NEAR(got[i].second.data<double>()[k], want[i].second.data<double>()[k], within) << got[i].first << " " << k;
  }
}

// With lr = 0 the weights keep their values.
TEST_F(laws_given, training_begins_with_the_given_weights_in_every_mode) {
  const auto trained = run(prepare_mode({.steps = 6}), dev_.get());
  ASSERT_TRUE(trained.done);
  for (const auto& mode : shared_mode_tables()->modes.names()) {
    mode_shape s{.mode = mode, .steps = 6, .lr = 0};
    s.together = mode == "hogwild";
    if (mode == "eamsgd") s.rule = "nesterov";
    const auto first = prepare_mode(s);
    ASSERT_TRUE(first) << mode;
    begin_at(*first, 0, trained.weights);
    const auto r = run(first, dev_.get());
    EXPECT_TRUE(r.done) << mode << r.error();
    expect_near(r.weights, trained.weights, 1e-12);
    if (HasFailure()) FAIL() << mode;
  }
}

TEST_F(laws_given, every_server_group_gets_the_given_weights) {
  const auto trained = run(prepare_mode({.workers = 4, .steps = 6}), dev_.get());
  for (const char* mode : {"group_sync", "hogwild"}) {
    mode_shape s{.mode = mode, .workers = 4, .steps = 6, .lr = 0};
    s.groups = s.server_groups = 2;
    if (std::string(mode) == "hogwild") s.groups = s.server_groups = 4;
    const auto j = prepare_mode(s);
    ASSERT_TRUE(j);
    begin_at(*j, 0, trained.weights);
    ASSERT_GT(j->plan.shards.size(), 1u);
    const auto r = run(j, dev_.get());
    EXPECT_TRUE(r.done) << mode << r.error();
    expect_near(r.weights, trained.weights, 1e-12);
  }
}

// Weights of another type, as from a file: the shard converts them.
TEST_F(laws_given, given_weights_may_have_another_type) {
  const auto trained = run(prepare_mode({.steps = 6}), dev_.get());
  named narrow;
  for (const auto& [name, t] : trained.weights) {
    auto to = tensor::allocate(*dev_, t.dims(), dtype::f32);
    dev_->copy(t, to);
    narrow.emplace_back(name, to);
  }
  mode_shape s{.steps = 6, .lr = 0};
  s.max_block = 64;  // several blocks per parameter
  s.shards = 2;
  const auto j = prepare_mode(s);
  begin_at(*j, 0, narrow);
  const auto r = run(j, dev_.get());
  ASSERT_TRUE(r.done) << r.error();
  expect_near(r.weights, trained.weights, 1e-6);
}

}  // namespace
}  // namespace troupe::testing
