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

}  // namespace
}  // namespace troupe::recovery
