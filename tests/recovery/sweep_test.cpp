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

}  // namespace
}  // namespace troupe::recovery
