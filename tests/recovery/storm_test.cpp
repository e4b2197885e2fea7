#include <map>

#include "tests/recovery/storm.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

// The text with numbers replaced by '#', so that similar ends count together.
std::string kind_of(const std::string& text) {
  std::string s;
  for (const char c : text.substr(0, 160)) s += c >= '0' && c <= '9' ? '#' : c;
  for (auto at = s.find("##"); at != std::string::npos; at = s.find("##")) s.erase(at, 1);
  return s;
}

TEST(recovery_storm, a_job_ends_correctly_under_random_faults) {
  std::map<std::string, std::uint64_t> ends;
  std::uint64_t recovered = 0, old = 0, moved = 0, wrong = 0, learned = 0;
  double off = 0;
  const auto first = testing::first_seed();
  const auto count = testing::seeds(120);
  for (auto seed = first; seed < first + count; ++seed) {
    const auto r = run_storm(seed);
    EXPECT_TRUE(r.wrong.empty()) << r.wrong;
    if (!r.wrong.empty() && ++wrong >= 5) break;
    if (r.off >= 0) ++learned, off = std::max(off, r.off);
    recovered += r.got.recovered, old += r.got.old, moved += r.got.moved;
    ++ends[r.got.kind == "done" ? "done " + r.got.text : kind_of(r.got.text)];
  }
  for (const auto& [text, n] : ends) std::printf("%6llu  %s\n", static_cast<unsigned long long>(n), text.c_str());
  std::printf("%llu recovered, %llu moved, %llu messages of earlier plans\n", static_cast<unsigned long long>(recovered),
              static_cast<unsigned long long>(moved), static_cast<unsigned long long>(old));
  std::printf("%llu jobs outside lockstep reached the minimiser, up to %g\n", static_cast<unsigned long long>(learned), off);
  if (count < 50) return;
  EXPECT_GT(recovered, 0u);
  EXPECT_GT(moved, 0u);
}

// A planted bug that the invariants must find: roles receive messages of earlier plans.
TEST(recovery_storm, roles_without_a_fence_are_found) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const auto r = run_storm(seed, true);
    if (r.wrong.empty()) continue;
    std::printf("found at seed %llu\n", static_cast<unsigned long long>(seed));
    EXPECT_NE(r.wrong.find("of plan"), std::string::npos) << r.wrong;
    return;
  }
  FAIL() << "not found in 400 seeds";
}

}  // namespace
}  // namespace troupe::recovery
