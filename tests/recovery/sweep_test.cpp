#include "tests/recovery/sweep.hpp"

namespace troupe::recovery {
namespace {

// All points with TROUPE_SWEEP=1 (nightly), otherwise some of them, in every mode.
TEST(recovery_sweep, every_mode_survives_a_node_death_after_any_message) {
  const bool all = std::getenv("TROUPE_SWEEP") != nullptr;
  std::uint64_t runs = 0;
  for (const auto& m : modes())
    for (const bool works : {true, false}) {
      const std::uint64_t stride = all ? 1 : 53;
      const auto r = sweep(m.name, works, 1 + (works ? 0 : stride / 2), stride);
      EXPECT_TRUE(r.wrong.empty()) << m.name << (works ? "" : ", no worker on the coordinator's node") << ", " << r.wrong;
      std::printf("%s%s: %llu points, %llu runs, %llu recovered, %llu old messages\n", m.name.c_str(),
                  works ? "" : " on separate nodes", static_cast<unsigned long long>(r.points),
                  static_cast<unsigned long long>(r.runs), static_cast<unsigned long long>(r.recovered),
                  static_cast<unsigned long long>(r.old));
      runs += r.runs;
    }
  EXPECT_GT(runs, 50u);
}

// The second death comes during the recovery from the first, or later. All pairs with
// TROUPE_SWEEP=1.
TEST(recovery_sweep, a_job_survives_two_node_deaths_after_any_two_messages) {
  const bool all = std::getenv("TROUPE_SWEEP") != nullptr;
  const auto c = smallest("bsp", true);
  const auto calm = run_fleet(c);
  ASSERT_TRUE(calm.wrong.empty()) << calm.wrong;
  std::uint64_t runs = 0, recovered = 0;
  for (std::uint64_t first = 1; first <= calm.points; first += all ? 1 : 19)
    for (std::uint64_t second = first + 1; second <= first + calm.points; second += all ? 1 : 23) {
      const auto o = run_fleet(c, [&](fleet& f) {
        hit(f, first, 3 * first);  // restarted, so that a usable node always remains
        hit(f, second, 3 * second + 1);
      });
      const auto wrong = judged(o, calm, true);
      ASSERT_TRUE(wrong.empty()) << "points " << first << " and " << second << ": " << wrong;
      ++runs, recovered += o.recovered;
    }
  std::printf("%llu runs, %llu recovered\n", static_cast<unsigned long long>(runs), static_cast<unsigned long long>(recovered));
  EXPECT_GT(recovered, 0u);
}

}  // namespace
}  // namespace troupe::recovery
