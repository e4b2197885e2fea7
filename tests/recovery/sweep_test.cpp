#include "tests/recovery/sweep.hpp"

namespace troupe::recovery {
namespace {

// All points with TROUPE_SWEEP=1 (nightly); else some of them, in every mode.
TEST(recovery_sweep, whoever_dies_after_whatever_message_every_mode_goes_on) {
  const bool all = std::getenv("TROUPE_SWEEP") != nullptr;
  std::uint64_t runs = 0;
  for (const auto& m : modes())
    for (const bool works : {true, false}) {
      const std::uint64_t stride = all ? 1 : 53;
      const auto r = sweep(m.name, works, 1 + (works ? 0 : stride / 2), stride);
      EXPECT_TRUE(r.wrong.empty()) << m.name << (works ? "" : ", nothing on the coordinator's node") << ", " << r.wrong;
      std::printf("%s%s: %llu points, %llu runs, %llu recovered, %llu old messages\n", m.name.c_str(), works ? "" : " apart",
                  static_cast<unsigned long long>(r.points), static_cast<unsigned long long>(r.runs),
                  static_cast<unsigned long long>(r.recovered), static_cast<unsigned long long>(r.old));
      runs += r.runs;
    }
  EXPECT_GT(runs, 50u);
}

// The second death comes while the job is on its way back from the first, or after. All pairs with
// TROUPE_SWEEP=1.
TEST(recovery_sweep, two_deaths_after_whatever_messages_are_outlived) {
  const bool all = std::getenv("TROUPE_SWEEP") != nullptr;
  const auto c = smallest("bsp", true);
  const auto calm = run_fleet(c);
  ASSERT_TRUE(calm.wrong.empty()) << calm.wrong;
  std::uint64_t runs = 0, recovered = 0;
  for (std::uint64_t first = 1; first <= calm.points; first += all ? 1 : 19)
    for (std::uint64_t second = first + 1; second <= first + calm.points; second += all ? 1 : 23) {
      const auto o = run_fleet(c, [&](fleet& f) {
        hit(f, first, 3 * first);  // back, so that the last that can work is never gone
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
