// The roles of a job in sim::world: the weights do not depend on the order of delivery or on the
// number of workers, shards and sub-solvers.
#include <cmath>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

class bsp_world : public ::testing::Test {
 protected:
  bsp_world() : dev_(make_cpu_device()) {}
  run_result run(const shape_of_job& s, std::uint64_t seed, std::uint32_t nodes = 1) {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev_.get();
    return run_in_world(prepare(s, nodes), c);
  }
  std::unique_ptr<device> dev_;
};

TEST_F(bsp_world, loss_falls_during_training) {
  shape_of_job s;
  s.steps = 60;
  const auto r = run(s, 1);
  std::vector<double> losses;
  for (const auto& e : r.events)
    if (e.is<step_event>()) losses.push_back(flatten(e).values.at(0).second);
  ASSERT_EQ(losses.size(), 60u);
  double first = 0, last = 0;
  for (int i = 0; i < 10; ++i)
    first += losses[static_cast<std::size_t>(i)], last += losses[losses.size() - 1 - static_cast<std::size_t>(i)];
  EXPECT_LT(last, 0.8 * first);
}

TEST_F(bsp_world, weights_do_not_depend_on_delivery_order) {
  shape_of_job s;
  s.workers = 3;
  s.shards = 2;
  s.sub_solvers = 2;
  const auto want = run({}, 1).bytes();
  ASSERT_FALSE(want.empty());
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    const auto got = run(s, seed, 3);
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
  }
}

TEST_F(bsp_world, weights_do_not_depend_on_workers_shards_sub_solvers_or_fusion) {
  const auto want = run({}, 1).bytes();
  for (std::uint32_t workers : {1u, 2u, 3u, 4u})
    for (std::uint32_t shards : {1u, 2u, 3u})
      for (std::uint32_t solvers : {1u, 2u})
        for (const char* fuse : {"none", "auto"}) {
          shape_of_job s;
          s.workers = workers, s.shards = shards, s.sub_solvers = solvers, s.fuse = fuse;
          EXPECT_EQ(run(s, 10 * workers + shards, 2).bytes(), want)
              << workers << " workers, " << shards << " shards, " << solvers << " " << fuse;
        }
}

// bsp's first invariant: a gradient is applied exactly once. Half of all parameter messages are
// duplicated; some copies arrive long after their step.
TEST_F(bsp_world, duplicate_gradient_is_applied_once) {
  shape_of_job s;
  s.workers = 3;
  s.shards = 2;
  s.sub_solvers = 2;
  s.steps = 20;
  const auto want = run(s, 1, 3).bytes();
  std::uint64_t doubled = 0;
  const auto twice = [&](const envelope& e, sim::random& r) {
    const bool parameters = std::holds_alternative<push>(e.body) || std::holds_alternative<gradient>(e.body) ||
                            std::holds_alternative<weights>(e.body) || std::holds_alternative<layer_weights>(e.body);
    if (!parameters || r.below(2) == 0) return 1;
    ++doubled;
    return 2;
  };
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    sim::world_config c;
    c.seed = seed;
    c.dev = dev_.get();
    ASSERT_EQ(run_in_world(prepare(s, 3), c, twice).bytes(), want) << "seed " << seed;
  }
  EXPECT_GT(doubled, 1000u);
}

TEST_F(bsp_world, same_seed_gives_the_same_trace) {
  shape_of_job s;
  s.workers = 4;
  s.shards = 2;
  s.eval_every = 2;
  EXPECT_EQ(run(s, 5, 4).trace, run(s, 5, 4).trace);
  EXPECT_NE(run(s, 5, 4).trace, run(s, 6, 4).trace);
}

TEST_F(bsp_world, trace_is_the_same_without_maths) {
  shape_of_job s;
  s.workers = 2;
  sim::world_config c;
  c.seed = 9;
  sim::world_config none = c;
  c.dev = dev_.get();
  const auto with_maths = run_in_world(prepare(s, 2), c);
  const auto without = run_in_world(prepare(s, 2), none);
  EXPECT_EQ(with_maths.trace, without.trace);
}

TEST_F(bsp_world, evaluation_does_not_change_training_and_pads_the_last_packet) {
  shape_of_job s;
  const auto want = run(s, 1).bytes();
  s.eval_every = 2;
  s.workers = 2;
  const auto r = run(s, 2, 2);
  EXPECT_EQ(r.bytes(), want);
  int rounds = 0;
  double accuracy = -1;
  for (const auto& e : r.events)
    if (e.is<eval_event>()) ++rounds, accuracy = flatten(e).values.at(0).second;
  EXPECT_EQ(rounds, 3);  // steps 2, 4 and the end
  EXPECT_NEAR(accuracy * 13, std::round(accuracy * 13), 1e-6) << "the mean is over the 13 test examples, without padding";
}

TEST_F(bsp_world, pause_checkpoint_resume_and_stop_happen_at_a_boundary) {
  shape_of_job s;
  s.steps = 50;
  auto j = prepare(s);
  sim::world_config c;
  c.dev = dev_.get();
  sim::world w(c);
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  std::vector<std::string> kinds;
  std::uint64_t last_step = 0, stored = 0;
  w.on_event = [&](const event_effect& e) {
    if (e.is<step_event>())
      last_step = e.step;
    else
      kinds.push_back(name_of(e).name);
  };
  w.on_store = [&](const store_effect& e) {
    if (e.what == store_effect::kind_of::checkpoint) stored = e.step;
  };
  auto say = [&](message m) {
    envelope e;
    e.h.dst = role_id{0};
    e.body = std::move(m);
    w.inject(e);
  };
  say(start{});
  ASSERT_TRUE(w.run(1'000'000, [&] { return last_step >= 5; }));
  say(command{pause_command{}});
  ASSERT_TRUE(w.run(1'000'000));  // until no events are left
  ASSERT_EQ(kinds, (std::vector<std::string>{"paused"}));
  const auto paused_at = last_step;
  say(command{checkpoint_command{}});
  ASSERT_TRUE(w.run(1'000'000));
  EXPECT_EQ(stored, paused_at);
  EXPECT_EQ(last_step, paused_at);
  say(command{resume_command{}});
  ASSERT_TRUE(w.run(1'000'000, [&] { return last_step >= paused_at + 5; }));
  say(command{stop_command{}});
  ASSERT_TRUE(w.run(1'000'000));
  EXPECT_EQ(kinds.back(), "done");
  EXPECT_LT(last_step, 50u);
  EXPECT_EQ(stored, last_step);
}

}  // namespace
}  // namespace troupe::testing
