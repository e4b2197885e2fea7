// The smallest cases: a job on three daemons, of which one dies.
#include "tests/recovery/laws.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

fleet_config of(const std::string& mode, std::uint64_t seed = 1) {
  fleet_config c;
  c.seed = seed;
  c.job = text_of(mode_named(mode), {});
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

TEST(recovery_fleet, an_undisturbed_job_of_every_mode_ends_and_a_seed_is_reproducible) {
  for (const auto& m : modes()) {
    const auto a = run_fleet(of(m.name)), b = run_fleet(of(m.name));
    EXPECT_TRUE(a.wrong.empty()) << m.name << ": " << a.wrong;
    EXPECT_EQ(a.kind, "done") << m.name << " " << a.text;
    EXPECT_EQ(a.recovered, 0u);
    EXPECT_EQ(a.sha, b.sha) << m.name;
    EXPECT_EQ(a.events, b.events) << m.name;
    EXPECT_EQ(a.took, b.took) << m.name;
    std::printf("%s: %llu points, %llu events, %.3f s\n", m.name.c_str(), static_cast<unsigned long long>(a.points),
                static_cast<unsigned long long>(a.events), seconds_of(a.took));
  }
}

TEST(recovery_fleet, a_node_death_in_bsp_does_not_change_the_final_weights) {
  const auto calm = run_fleet(of("bsp"));
  ASSERT_EQ(calm.wrong, "");
  for (const char* who : {"n2", "n3"})
    for (std::uint64_t at = 30; at < calm.points; at += 97) {
      const auto got = run_fleet(of("bsp"), [&](fleet& f) { f.after_point(at, [&f, who](const std::string&) { f.kill(who); }); });
      ASSERT_TRUE(got.wrong.empty()) << who << " at " << at << ": " << got.wrong;
      ASSERT_EQ(got.kind, "done") << got.text;
      ASSERT_EQ(got.sha, calm.sha) << who << " at " << at;
    }
}

// A second node, with the only copy of some parameters, dies before the plan after the first
// failure has made a step. There is no checkpoint, but the job need not restart at step 0: the
// makers of that plan still have the state that it begins with.
TEST(recovery_fleet, a_second_death_before_the_next_plan_makes_a_step_costs_no_step) {
  auto c = of("bsp");
  c.nodes = 4;
  small_text t;
  t.workers = 4, t.shards = 2, t.steps = 24, t.checkpoint = "";
  c.job = text_of(mode_named("bsp"), t);
  const auto calm = run_fleet(c);
  ASSERT_EQ(calm.wrong, "");
  const auto first = calm.points / 2;
  std::size_t kept = 0, both = 0;
  for (std::uint64_t later = 1; later < 400; ++later) {
    const auto got = run_fleet(c, [&](fleet& f) {
      f.after_point(first, [&f](const std::string&) { f.kill("n4"); });
      f.after_point(first + later, [&f](const std::string&) { f.kill("n2"); });
    });
    ASSERT_TRUE(got.wrong.empty()) << later << ": " << got.wrong;
    ASSERT_EQ(got.kind, "done") << got.text;
    ASSERT_EQ(got.sha, calm.sha) << later;
    const auto& at = got.recovered_at;
    if (at.size() < 2) continue;
    ++both;
    if (at[0] > 0 && at[1] >= at[0]) ++kept;
  }
  std::printf("%zu runs with two deaths, in %zu the second cost no step\n", both, kept);
  EXPECT_GT(kept, 0u);
}

}  // namespace
}  // namespace troupe::recovery
