// Runs of whole simulated clusters as `troupe sim` makes them
// (runtime/node/simulation/sim_run.hpp).
#include "runtime/node/simulation/sim_run.hpp"

#include "tests/recovery/jobs.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

sim::cluster_config cluster_of(const small_mode& m, std::uint32_t nodes = 4) {
  small_text t;
  t.workers = nodes, t.shards = 2, t.packets = nodes, t.steps = 40;
  if (m.name == "eamsgd") t.rule = "nesterov";
  fleet_config c;
  c.nodes = nodes;
  c.job = text_of(m, t);
  return simulated(c, testing::shared_mode_tables());
}

sim::happening killed(std::uint32_t node, duration at, duration back) {
  sim::happening h;
  h.at = at;
  h.kind = sim::fault_kind::kill;
  h.nodes = {node};
  h.length = back;
  return h;
}

TEST(sim_run, a_killed_node_costs_a_recovery_and_no_bit_in_lockstep_modes) {
  for (const auto& m : modes()) {
    if (!m.lockstep) continue;
    SCOPED_TRACE(m.name);
    const auto c = cluster_of(m);
    const auto calm = run_cluster(c, {});
    ASSERT_EQ(calm.how, sim::run_result::end::done) << calm.text;
    ASSERT_FALSE(calm.weights_sha256.empty());
    EXPECT_EQ(calm.recoveries.size(), 0u);
    const auto got = run_cluster(c, {.faults = {killed(2, 30ms, 500ms)}});
    ASSERT_EQ(got.how, sim::run_result::end::done) << got.text;
    EXPECT_EQ(got.recoveries.size(), 1u);
    EXPECT_EQ(got.weights_sha256, calm.weights_sha256);
    EXPECT_NEAR(calm.goodput(), 1, 1e-9);
    EXPECT_EQ(judged(got, calm, true), "");
  }
}

TEST(sim_run, a_fault_of_a_disk_ends_with_the_last_of_those_that_overlap) {
  sim::cluster_config config = cluster_of(mode_named("bsp"));
  config.times.boot = {1ms, 1ms};
  sim::sim_cluster c(config);
  const auto slow = [&](duration at, double factor, duration length) {
    sim::happening h;
    h.kind = sim::fault_kind::slow_disk;
    h.nodes = {2};
    h.factor = factor;
    h.length = length;
    c.hosts().at(at, [&c, h] { c.suffer(h); });
  };
  slow(10ms, 3, 50ms);
  slow(20ms, 8, 20ms);
  slow(30ms, 3, 50ms);
  std::vector<double> seen;
  for (const auto at : {15ms, 25ms, 45ms, 65ms, 90ms}) {
    c.hosts().at(at, [&] { seen.push_back(c.at(2)->slow_disk); });
  }
  while (seen.size() < 5 && c.step()) {
  }
  EXPECT_EQ(seen, (std::vector<double>{3, 8, 3, 3, 1}));
}

TEST(sim_run, the_phases_of_a_recovery_add_up_to_its_time) {
  for (const bool live : {true, false}) {  // n2 has a shard, n4 has none
    SCOPED_TRACE(live);
    const auto got = run_cluster(cluster_of(mode_named("bsp")), {.faults = {killed(live ? 3 : 1, 30ms, -1ns)}});
    ASSERT_EQ(got.recoveries.size(), 1u);
    const auto& r = got.recoveries.front();
    ASSERT_TRUE(r.failed && r.stepped);
    EXPECT_LE(*r.failed, r.noticed);
    EXPECT_LT(r.noticed - *r.failed, 1s) << "a killed daemon's connections close";
    EXPECT_LE(r.begun, *r.stepped);
    for (const auto ms : {r.what.planned_ms, r.what.ready_ms, r.what.replaced_ms}) EXPECT_GT(ms, 0);
    EXPECT_EQ(r.what.state_ms > 0, live);
    EXPECT_EQ(r.what.live, live);
    EXPECT_EQ(r.what.plans, 1u);
    EXPECT_NEAR(r.what.planned_ms + r.what.ready_ms + r.what.state_ms + r.what.replaced_ms, r.what.ms, 1e-6);
  }
}

TEST(sim_run, a_lost_machine_is_noticed_by_its_silence) {
  auto h = killed(1, 30ms, -1ns);
  h.kind = sim::fault_kind::lose;
  const auto got = run_cluster(cluster_of(mode_named("bsp")), {.faults = {h}});
  ASSERT_EQ(got.recoveries.size(), 1u) << got.text;
  const auto& r = got.recoveries.front();
  EXPECT_GE(r.noticed - *r.failed, 4s);
  EXPECT_LE(r.noticed - *r.failed, 6s);
}

TEST(sim_run, a_coordinator_that_leaves_and_starts_at_once_continues_its_job) {
  auto h = killed(0, 0ns, 0ns);
  h.kind = sim::fault_kind::drain;
  const auto c = cluster_of(mode_named("bsp"));
  const auto got = run_cluster(c, {.faults = {h}});
  EXPECT_EQ(got.how, sim::run_result::end::done) << got.text;
  EXPECT_EQ(got.weights_sha256, run_cluster(c, {}).weights_sha256);
}

TEST(sim_run, a_job_without_its_coordinator_is_given_up_and_says_why) {
  const auto got = run_cluster(cluster_of(mode_named("bsp")), {.faults = {killed(0, 30ms, -1ns)}});
  EXPECT_EQ(got.how, sim::run_result::end::hung);
  EXPECT_NE(got.text.find("the coordinator's daemon on n1 does not run"), std::string::npos) << got.text;
  EXPECT_LT(got.over, 1h);
}

// A fault that makes every run of a seed fail is found, and the others are left out.
TEST(sim_run, the_faults_of_a_failing_seed_are_shrunk_to_those_that_matter) {
  sim::seeds_request q;
  q.first = q.last = 3;
  q.faults = [](std::uint64_t, const sim::run_result&) {
    std::vector<sim::happening> all;
    for (int i = 0; i < 6; ++i) all.push_back(killed(1 + static_cast<std::uint32_t>(i) % 3, 10ms + 5ms * i, 300ms));
    all.push_back(killed(0, 42ms, -1ns));
    return all;
  };
  const auto r = run_seeds(cluster_of(mode_named("bsp")), q);
  EXPECT_EQ(r.wrong_seed, 3u);
  EXPECT_EQ(r.faults_before, 7u);
  ASSERT_EQ(r.faults.size(), 1u) << r.wrong;
  EXPECT_EQ(r.faults.front().nodes, std::vector<std::uint32_t>{0});
}

TEST(sim_run, equal_seeds_give_equal_runs) {
  auto c = cluster_of(mode_named("tree"));
  const auto faults = random_storm(5, storm_for(run_cluster(c, {}), 4));
  const auto a = run_cluster(c, {.faults = faults}), b = run_cluster(c, {.faults = faults});
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.over, b.over);
  EXPECT_EQ(a.weights_sha256, b.weights_sha256);
  c.world.seed = 2;
  EXPECT_NE(run_cluster(c, {.faults = faults}).over, a.over);
}

// Storms of all kinds of faults in all modes. Runs end as they should, and lockstep modes with the
// bits of the run without faults.
TEST(sim_run, storms_change_no_bit_and_hang_no_run) {
  std::uint64_t recoveries = 0;
  for (const auto& m : modes()) {
    SCOPED_TRACE(m.name);
    sim::seeds_request q;
    q.first = testing::first_seed();
    q.last = q.first + testing::seeds(10) - 1;
    q.same_bits = m.lockstep;
    q.most = 2h;
    q.faults = [](std::uint64_t seed, const sim::run_result& calm) { return random_storm(seed, storm_for(calm, 4)); };
    const auto r = run_seeds(cluster_of(m), q);
    std::string text;
    for (const auto& h : r.faults) text += "\n  " + text_of(h);
    EXPECT_EQ(r.wrong, "") << "seed " << r.wrong_seed << ", " << r.faults_before << " faults, shrunk to:" << text;
    recoveries += r.recoveries;
  }
  EXPECT_GT(recoveries, modes().size());
}

}  // namespace
}  // namespace troupe::recovery
