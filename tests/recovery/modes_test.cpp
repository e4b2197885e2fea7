// Storms with every kind of fault on a job of four nodes, in every training mode, with one and two
// replicas of the parameters: faults of daemons and machines, and at the same time messages that
// are lost, late, out of order and doubled, and a clock that is ahead and runs at another rate.
// Each run ends: done, or with an error that says why; lockstep modes end with the bits of the run
// without faults.
//
// TROUPE_SEEDS=10000 with TROUPE_SEED=1 is the whole sweep; all processors work on it.
#include <thread>

#include "runtime/node/executor/shared_preparer.hpp"
#include "runtime/node/simulation/sim_run.hpp"
#include "tests/recovery/jobs.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t nodes = 4;

std::vector<sim::fault> faults_of_messages() {
  std::vector<sim::fault> all;
  const auto add = [&](sim::fault_kind kind, double probability, duration most, bool above = false) {
    sim::fault f;
    f.kind = kind, f.probability = probability, f.most = most, f.above = above;
    all.push_back(f);
  };
  add(sim::fault_kind::drop, 0.05, {});
  add(sim::fault_kind::delay, 0.05, 2ms);
  add(sim::fault_kind::reorder, 0.1, 600us);
  add(sim::fault_kind::duplicate, 0.05, {});
  add(sim::fault_kind::duplicate, 0.05, {}, true);
  return all;
}

// The clock of one node, by the seed.
sim::happening skewed_clock(std::uint64_t seed) {
  sim::random draws(seed);
  sim::happening h;
  h.kind = sim::fault_kind::skew;
  h.nodes = {static_cast<std::uint32_t>(draws.below(nodes))};
  h.ahead = duration(std::chrono::seconds(draws.below(3600)));
  h.factor = 0.5 + 1.5 * draws.unit();
  return h;
}

// All runs of one thread share the plans.
sim::cluster_config small_cluster(const small_mode& m, int replicas) {
  small_text t;
  t.workers = nodes, t.shards = 2, t.packets = nodes, t.steps = 6, t.checkpoint = "2";
  fleet_config c;
  c.nodes = nodes;
  c.job = text_of(m, t) + "replicas = " + std::to_string(replicas) + "\n";
  auto s = simulated(c, testing::shared_mode_tables());
  s.world.faults.list = faults_of_messages();
  s.plans = [place = control::job_place{s.cluster, s.cluster.nodes.front().name, s.numerics, s.all, {}}, job = c.job] {
    thread_local std::string made_for;
    thread_local std::shared_ptr<control::shared_preparer> plans;
    if (!plans || made_for != job) {
      plans = std::make_shared<control::shared_preparer>(std::make_shared<control::node_preparer>(place));
      made_for = job;
    }
    return plans;
  };
  return s;
}

sim::storm_shape every_fault(const sim::run_result& calm) {
  auto shape = storm_for(calm, nodes);
  shape.kinds.push_back(sim::fault_kind::partition);
  return shape;
}

// gossip, group_sync and hogwild have no shards that could have replicas.
std::vector<std::tuple<const char*, int>> cases() {
  std::vector<std::tuple<const char*, int>> all;
  for (const auto* name : {"bsp", "sandblaster", "ssp", "downpour", "easgd", "eamsgd"})
    for (const int replicas : {1, 2}) all.emplace_back(name, replicas);
  for (const auto* name : {"gossip", "group_sync", "hogwild"}) all.emplace_back(name, 1);
  return all;
}

class recovery_modes : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(recovery_modes, every_run_under_a_storm_ends_done_or_with_a_reason) {
  const auto& m = mode_named(std::get<0>(GetParam()));
  sim::seeds_request q;
  q.first = testing::first_seed();
  q.last = q.first + testing::seeds(20) - 1;
  q.threads = std::max(1u, std::thread::hardware_concurrency());
  q.same_bits = m.lockstep;
  q.most = 2h;
  q.faults = [](std::uint64_t seed, const sim::run_result& calm) {
    auto all = random_storm(seed, every_fault(calm));
    all.insert(all.begin(), skewed_clock(seed));
    return all;
  };
  const auto config = small_cluster(m, std::get<1>(GetParam()));
  const auto calm = run_cluster(config, {}).counts;
  EXPECT_GT(calm.dropped + calm.delayed + calm.reordered + calm.duplicated_on_wire + calm.duplicated_above, 0u);
  const auto began = std::chrono::steady_clock::now();
  const auto r = run_seeds(config, q);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::string text;
  for (const auto& h : r.faults) text += "\n  " + text_of(h);
  EXPECT_EQ(r.wrong, "") << "seed " << r.wrong_seed << ", " << r.faults_before << " faults, shrunk to:" << text;
  EXPECT_EQ(r.done + r.failed, r.runs);
  std::printf("%llu runs: %llu done, %llu failed, %llu recoveries, %.1f ms a run\n", static_cast<unsigned long long>(r.runs),
              static_cast<unsigned long long>(r.done), static_cast<unsigned long long>(r.failed),
              static_cast<unsigned long long>(r.recoveries),
              took.count() / static_cast<double>(std::max<std::uint64_t>(1, r.runs)));
}

INSTANTIATE_TEST_SUITE_P(all, recovery_modes, ::testing::ValuesIn(cases()), [](const auto& made) {
  return std::string(std::get<0>(made.param)) + "_" + std::to_string(std::get<1>(made.param));
});

}  // namespace
}  // namespace troupe::recovery
