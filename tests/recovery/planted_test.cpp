// Each planted mistake is found by some storm, and few faults are enough to show it.
#include "tests/recovery/planted.hpp"
#include "runtime/sim/shrink.hpp"
#include "runtime/sim/storm.hpp"
#include "tests/recovery/storm.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

constexpr std::uint64_t most_seeds = 2000;
constexpr std::size_t most_faults = 3;

fleet_config small_fleet(std::uint64_t seed) {
  fleet_config c;
  c.seed = seed;
  c.nodes = 3;
  small_text t;
  t.workers = 3, t.shards = 2, t.packets = 3, t.steps = 8, t.checkpoint = "3";
  c.job = text_of(mode_named("bsp"), t);
  c.compute.task = {ms(5), ms(100)};
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

struct planted_run {
  std::string wrong;
  outcome got;
};

planted_run run_planted(planted p, std::uint64_t seed, const std::vector<sim::happening>& faults, const std::string& sha) {
  auto c = small_fleet(seed);
  plant(c, p);
  planted_run r;
  r.got = run_fleet(c, [&](fleet& f) {
    for (const auto& h : faults) f.when().at(h.at, [&f, h] { f.suffer(h); });
  });
  r.wrong = r.got.wrong;
  if (r.wrong.empty() && r.got.kind == "error" && !named_end(r.got.text)) r.wrong = "an unexpected error: " + r.got.text;
  if (r.wrong.empty() && r.got.kind == "done" && r.got.text != "stopped" && r.got.sha != sha) r.wrong = "the weights differ";
  return r;
}

sim::storm_shape shape_of(const outcome& calm) {
  sim::storm_shape shape;
  shape.nodes = 3;
  shape.span = calm.took * 3 / 2;
  shape.all_return = true;
  return shape;
}

TEST(recovery_planted, each_mistake_is_found_and_shown_by_few_faults) {
  const auto calm = run_planted(planted::none, 1, {}, {}).got;
  ASSERT_EQ(calm.kind, "done") << calm.text;
  const auto shape = shape_of(calm);
  for (auto i = 1; i < static_cast<int>(planted::end); ++i) {
    const auto p = static_cast<planted>(i);
    SCOPED_TRACE(name_of(p));
    std::uint64_t seed = 0;
    planted_run found;
    std::vector<sim::happening> faults;
    while (found.wrong.empty() && seed < most_seeds) {
      faults = random_storm(++seed, shape);
      found = run_planted(p, seed, faults, calm.sha);
    }
    if (found.wrong.empty()) {
      ADD_FAILURE() << "not found in " << most_seeds << " seeds";
      continue;
    }
    const auto few = sim::shrink(
        faults, [&](const auto& list) { return !run_planted(p, seed, list, calm.sha).wrong.empty(); }, 300);
    std::string text;
    for (const auto& h : few) text += "\n  " + text_of(h);
    EXPECT_LE(few.size(), most_faults) << text;
    EXPECT_EQ(run_planted(planted::none, seed, faults, calm.sha).wrong, "") << "without the mistake";
    EXPECT_EQ(run_planted(planted::none, seed, few, calm.sha).wrong, "") << "without the mistake";
    std::printf("%s: seed %llu, %zu faults, shrunk to %zu: %s%s\n", name_of(p), static_cast<unsigned long long>(seed),
                faults.size(), few.size(), found.wrong.substr(0, found.wrong.find('\n')).c_str(), text.c_str());
    std::fflush(stdout);
  }
}

// The invariants find nothing where no mistake is planted.
TEST(recovery_planted, no_mistake_is_found_where_none_is_planted) {
  const auto calm = run_planted(planted::none, 1, {}, {}).got;
  const auto first = testing::first_seed();
  for (auto seed = first; seed < first + testing::seeds(100); ++seed) {
    const auto faults = random_storm(seed, shape_of(calm));
    const auto r = run_planted(planted::none, seed, faults, calm.sha);
    std::string text;
    for (const auto& h : faults) text += "\n  " + text_of(h);
    EXPECT_EQ(r.wrong, "") << "seed " << seed << text;
  }
}

}  // namespace
}  // namespace troupe::recovery
