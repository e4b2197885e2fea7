// fraction = "auto" in the simulator: the packets of the workers follow their speed, through
// proposals of the coordinator and changes of the plan, and the weights do not change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "runtime/record/sha256.hpp"
#include "tests/sim/moving.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

expected<std::shared_ptr<prepared_job>, diagnostics> balanced_job(std::uint32_t workers, std::uint32_t packets, std::uint64_t steps,
                                                                  const std::vector<double>& tflops = {}) {
  shape_of_job s;
  s.workers = workers, s.packets = packets, s.steps = steps;
  auto spec = small_spec(s);
  spec.data.batch = packets;
  spec.layers.front().auto_fraction = true;
  auto nodes = nodes_named(workers);
  for (std::size_t n = 0; n < tflops.size(); ++n) nodes[n].tflops = {tflops[n]};
  return prepare_job(spec, shared_tables(), nodes);
}
std::shared_ptr<prepared_job> good(expected<std::shared_ptr<prepared_job>, diagnostics> made) { return *std::move(made); }

std::vector<std::uint32_t> counts(const job_plan& p) {
  std::vector<std::uint32_t> list;
  for (const auto& r : p.ranges) list.push_back(r.count);
  return list;
}

sim::world_config slow_nodes(const std::vector<double>& factors) {
  sim::world_config c;
  c.dev = cpu().get();
  c.compute.flops_per_second = 1e6;  // a packet takes milliseconds, and messages microseconds
  for (std::uint32_t n = 0; n < factors.size(); ++n) c.compute.slow.emplace_back(n, factors[n]);
  return c;
}

// The packets of "balanced the packets of the workers: 13, 3".
std::vector<std::uint32_t> packets_in(const std::string& text) {
  std::vector<std::uint32_t> list;
  std::istringstream in(text.substr(text.find(':') + 1));
  for (std::string n; std::getline(in, n, ',');) list.push_back(static_cast<std::uint32_t>(std::stoul(n)));
  return list;
}

TEST(auto_fraction, begins_with_shares_by_the_stated_speeds) {
  EXPECT_THAT(counts(good(balanced_job(2, 16, 1, {3.0, 1.0}))->plan), ElementsAre(12, 4));
  EXPECT_THAT(counts(good(balanced_job(2, 16, 1))->plan), ElementsAre(8, 8));
  EXPECT_THAT(counts(good(balanced_job(2, 4, 1, {1000.0, 1.0}))->plan), ElementsAre(3, 1)) << "every worker has a packet";
}

TEST(auto_fraction, follows_the_speed_of_the_workers_within_ten_steps_and_keeps_the_bits) {
  const auto j = good(balanced_job(2, 16, 30));
  const auto want = run_moved(good(balanced_job(2, 16, 30)), {}, slow_nodes({1, 1}));
  ASSERT_TRUE(want.moved.empty());
  const auto got = run_moved(j, {}, slow_nodes({1, 4}));
  ASSERT_FALSE(got.moved.empty());
  EXPECT_LE(got.at.front(), 10u);
  const auto last = packets_in(got.moved.back());
  EXPECT_NEAR(last[0], 13, 1) << got.moved.back();
  EXPECT_EQ(got.first_uneven, 0u);
  EXPECT_EQ(weights_sha256(got.weights), weights_sha256(want.weights));
}

TEST(auto_fraction, follows_speeds_that_drift) {
  const auto j = good(balanced_job(2, 24, 60));
  const moved_result r = moving_run(j, {}, {}).run(slow_nodes({1, 3}), [](std::size_t plan, sim::world_config& c) {
    if (plan == 0) return;
    // From some time into the second plan on, node 0 is six times as slow as before.
    sim::fault f;
    f.kind = sim::fault_kind::slow, f.nodes = {0}, f.factor = 6;
    f.from = plan == 1 ? std::chrono::seconds(2) : duration{};
    c.faults.list = {f};
  });
  ASSERT_GE(r.moved.size(), 2u);
  EXPECT_NEAR(packets_in(r.moved.front())[0], 18, 1) << r.moved.front();
  EXPECT_NEAR(packets_in(r.moved.back())[0], 8, 1) << r.moved.back();
}

TEST(auto_fraction, is_close_to_the_best_shares_for_any_speeds) {
  for (std::uint64_t seed = 1; seed <= seeds(20); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto workers = static_cast<std::uint32_t>(2 + random() % 3);
    const auto packets = static_cast<std::uint32_t>(workers * (2 + random() % 8));
    std::vector<double> factors;
    for (std::uint32_t w = 0; w < workers; ++w) factors.push_back(1 + 0.1 * static_cast<double>(random() % 60));
    auto c = slow_nodes(factors);
    c.seed = seed, c.dev = nullptr;
    const auto j = good(balanced_job(workers, packets, 24));
    const auto r = run_moved(j, {}, c);
    const auto best = balanced(packets, factors);
    const auto last = r.moved.empty() ? counts(j->plan) : packets_in(r.moved.back());
    double now = 0, least = 0, one = 0;
    for (std::size_t w = 0; w < workers; ++w) {
      now = std::max(now, last[w] * factors[w]);
      least = std::max(least, static_cast<double>(best[w]) * factors[w]);
      one = std::max(one, factors[w]);
    }
    EXPECT_LE(now, least * 1.04 + one);
  }
}

TEST(auto_fraction, is_refused_where_it_has_no_effect) {
  const auto why = [](const std::function<void(job_spec&)>& change) {
    shape_of_job s;
    s.workers = 2, s.packets = 8;
    auto spec = small_spec(s);
    spec.layers.front().auto_fraction = true;
    change(spec);
    const auto made = prepare_job(spec, shared_tables(), nodes_named(2));
    return made ? std::string() : made.error().front().message;
  };
  EXPECT_EQ(why([](job_spec&) {}), "");
  EXPECT_THAT(why([](job_spec& j) {
                j.train.sync = {"ssp", checked({}, shared_tables()->modes.find("ssp")->specs), {}};
              }),
              HasSubstr("layer 'conv1': fraction = \"auto\" needs mode bsp"));
  EXPECT_THAT(why([](job_spec& j) { j.pipeline.weights = "stash"; }), HasSubstr("needs pipeline.weights = \"drain\""));
  EXPECT_THAT(why([](job_spec& j) { j.layers[3].auto_fraction = true, j.layers[3].place = {"n1"}; }),
              HasSubstr("layer 'left': \"auto\" sets the packets of the workers"));
}

TEST(auto_fraction, coordinator_drops_times_that_no_worker_can_report) {
  const auto j = good(balanced_job(2, 16, 10));
  const auto coordinator = make_role(j, role_id{0});
  effects out;
  envelope e;
  e.body = start{};
  coordinator->on(e, {}, out);
  const auto worker = j->plan.workers[1];
  const auto drops = [&](role_id from, std::uint64_t step, double seconds, drop_reason reason) {
    const auto before = coordinator->dropped()[reason];
    e.h.src = from, e.h.step = step, e.body = step_time{seconds};
    coordinator->on(e, {}, out);
    return coordinator->dropped()[reason] - before;
  };
  EXPECT_EQ(drops(worker, 0, 0.5, drop_reason::repeated), 0u);
  EXPECT_EQ(drops(worker, 0, 0.5, drop_reason::repeated), 1u);
  EXPECT_EQ(drops(j->plan.shards[0], 1, 0.5, drop_reason::misaddressed), 1u);
  EXPECT_EQ(drops(role_id{4000}, 1, 0.5, drop_reason::misaddressed), 1u);
  EXPECT_EQ(drops(worker, 1000, 0.5, drop_reason::malformed), 1u);
  EXPECT_EQ(drops(worker, 1, -0.5, drop_reason::malformed), 1u);
  EXPECT_EQ(drops(worker, 1, std::nan(""), drop_reason::malformed), 1u);
  EXPECT_EQ(drops(worker, 1, std::numeric_limits<double>::infinity(), drop_reason::malformed), 1u);
}

TEST(balance_command, is_refused_with_the_numbers_that_the_job_has) {
  const auto j = good(balanced_job(2, 16, 1));
  const auto refused = [&](const std::vector<std::uint32_t>& packets) {
    const auto a = amended(*j, {}, {balance_command{packets}});
    return a ? std::string() : a.error().text;
  };
  EXPECT_EQ(refused({12, 4}), "");
  const std::string wrong = "the job has 2 workers and 16 packets in a step: name the packets of each worker";
  EXPECT_EQ(refused({12, 5}), wrong);
  EXPECT_EQ(refused({16}), wrong);
  EXPECT_EQ(refused({16, 0}), "bad number of packets '0'");
  EXPECT_EQ(refused({17, 1}), "bad number of packets '17'");
  const auto plain = prepare({.packets = 4, .workers = 2});
  const auto a = amended(*plain, {}, {balance_command{{2, 2}}});
  EXPECT_THAT(a.error().text, HasSubstr("no layer of the job has fraction = \"auto\""));
}

}  // namespace
}  // namespace troupe::testing
