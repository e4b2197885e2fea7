// A node that failed and joined again gets roles of the job again, in every mode.
#include "tests/recovery/laws.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

TEST(recovery_back, a_lost_node_gets_roles_again_in_every_mode_when_it_joins_again) {
  for (const auto& m : modes()) {
    SCOPED_TRACE(m.name);
    small_text t;
    t.steps = 500, t.checkpoint = "";
    fleet_config c;
    c.job = text_of(m, t);
    c.logs = std::getenv("TROUPE_TRACE") != nullptr;
    const auto calm = run_fleet(c);
    ASSERT_EQ(calm.wrong, "");
    const auto first = testing::first_seed();
    for (auto seed = first; seed < first + testing::seeds(2); ++seed) {
      c.seed = seed;
      std::size_t busy = 0;
      const auto got = run_fleet(c, [&](fleet& f) {
        f.after_point(calm.points / 4, [&](const std::string&) {
          f.kill("n3");
          f.when().in(200ms, [&f] { f.start("n3"); });
        });
        for (auto p = calm.points / 2; p < calm.points * 2; p += 50)
          f.after_point(p, [&](const std::string&) { busy += f.alive("n3") && !f.at("n3")->idle() ? 1 : 0; });
      });
      ASSERT_EQ(got.wrong, "");
      EXPECT_EQ(got.kind, "done") << got.text;
      EXPECT_EQ(got.recovered, 1u);
      EXPECT_EQ(got.moved, 1u) << "n3 was not added again";
      EXPECT_GT(busy, 0u) << "n3 has no role of the job";
      if (m.lockstep) {
        EXPECT_EQ(got.sha, calm.sha);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::recovery
