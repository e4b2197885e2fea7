// The coordinator's daemon is stopped (SIGSTOP) until all other nodes have declared it lost, then
// continues (SIGCONT). No node has failed, so no step is repeated.
#include <numeric>

#include "tests/recovery/laws.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

TEST(recovery_stopped, a_stopped_coordinator_continues_from_surviving_state_in_every_mode) {
  for (const auto& m : modes())
    for (const bool works : {true, false}) {
      SCOPED_TRACE(m.name + (works ? "" : ", no worker on the coordinator's node"));
      small_text t;
      t.steps = 60, t.checkpoint = "", t.workers = works ? 3 : 2;
      fleet_config c;
      c.coordinator_works = works;
      c.job = text_of(m, t);
      c.logs = std::getenv("TROUPE_TRACE") != nullptr;
      const auto calm = run_fleet(c);
      ASSERT_EQ(calm.wrong, "");
      std::vector<std::uint64_t> seeds(testing::seeds(3));
      std::iota(seeds.begin(), seeds.end(), testing::first_seed());
      if (seeds.size() < 39) seeds.push_back(39);  // a connection is replaced right after its node joined again
      for (const auto seed : seeds) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        c.seed = seed;
        const auto got = run_fleet(c, [&](fleet& f) {
          f.after_point(calm.points / 4 + 7 * (seed % 40), [&](const std::string&) { f.stop_for(f.coordinator(), 8s); });
        });
        ASSERT_EQ(got.wrong, "");
        EXPECT_EQ(got.kind, "done") << got.text;
        ASSERT_EQ(got.recovered, 1u);
        EXPECT_GT(got.recovered_at[0], 0u) << "the job restarted at step 0";
        EXPECT_EQ(got.moved, 0u);
        if (m.lockstep) {
          EXPECT_EQ(got.sha, calm.sha);
        }
      }
    }
}

// A plan that a user asked for, or a recovery, is being made when the coordinator's daemon is
// stopped for so long that some or all nodes close their connections.
TEST(recovery_stopped, a_coordinator_stopped_while_a_plan_is_next_continues_from_surviving_state) {
  const std::vector<std::pair<std::string, std::function<void(fleet&)>>> changes = {
      {"drain n3", [](fleet& f) { f.tell({drain_command{"n3"}}); }},
      {"move loss0 n2",
       [](fleet& f) {
         f.tell({move_command{"loss0", "n2"}});
       }},
      {"n3 is lost", [](fleet& f) { f.kill("n3"); }},
      {"n3 shuts down", [](fleet& f) { f.drain("n3"); }}};
  for (const auto* name : {"bsp", "easgd"})
    for (const auto& [what, change] : changes)
      for (const bool works : {true, false}) {
        small_text t;
        t.steps = 60, t.checkpoint = "", t.workers = 2, t.shards = 1;
        fleet_config c;
        c.coordinator_works = works;
        c.job = text_of(mode_named(name), t);
        c.job += "replicas = 2\n";
        c.logs = std::getenv("TROUPE_TRACE") != nullptr;
        const auto calm = run_fleet(c);
        ASSERT_EQ(calm.wrong, "");
        std::size_t recovered = 0;
        for (std::uint64_t later = 0; later < 60; later += 1 + later / 8) {
          SCOPED_TRACE(std::string(name) + ", " + what + ", stopped " + std::to_string(later) + " messages later" +
                       (works ? "" : ", no worker on the coordinator's node"));
          c.seed = testing::first_seed() + later;
          const auto got = run_fleet(c, [&](fleet& f) {
            const auto at = calm.points / 3;
            f.after_point(at, [&](const std::string&) { change(f); });
            f.after_point(at + later + 1, [&](const std::string&) { f.stop_for(f.coordinator(), 6s); });
          });
          ASSERT_EQ(got.wrong, "");
          EXPECT_EQ(got.kind, "done") << got.text;
          recovered += got.recovered;
          for (const auto step : got.recovered_at) EXPECT_GT(step, 0u) << "the job restarted at step 0";
          if (mode_named(name).lockstep) {
            EXPECT_EQ(got.sha, calm.sha);
          }
        }
        EXPECT_GT(recovered, 0u);
      }
}

}  // namespace
}  // namespace troupe::recovery
