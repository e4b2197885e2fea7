// Invariant of mode switches in jobs with placed layers whose roles are killed: a restarted role
// adopts the current mode, and no bit changes.
#include "tests/sim/killing.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

std::shared_ptr<prepared_job> placed_job(std::uint64_t seed) {
  random_net net(seed * 31 + 7);
  auto spec = net.job();
  spec.train.lr = 1e-4;  // no squared loss may diverge for any draw
  spec.train.finish.steps = net.draw(4, 9);
  bool feature = false;
  net.place(spec, 4, feature);
  auto made = prepare_job(spec, shared_tables(), seed % 2 ? chain_nodes(4) : apart_nodes(4));
  if (!made) return nullptr;
  const auto j = *made;
  j->restarts = true;
  return j->plan.placed ? j : nullptr;
}

void say_mode(sim::world& w) {
  envelope e;
  e.h.dst = role_id{0};
  e.body = command{mode_command{{"bsp"}}};
  w.inject(std::move(e));
}

TEST(laws_killed, restarted_role_adopts_the_current_mode) {
  const std::shared_ptr<device> dev = make_cpu_device();
  std::uint64_t ran = 0, killed = 0, switched = 0;
  for (auto seed = first_seed(); ran < seeds(300); ++seed) {
    const auto j = placed_job(seed);
    if (!j) continue;
    ++ran;
    const auto calm = run({.job = j, .config = draw_world(seed, 0, dev.get())});
    ASSERT_EQ(calm.violation, "") << "seed " << seed;
    mode_run r{.job = j, .config = draw_world(seed, 3, dev.get(), {.crash = false, .faults = seed % 3 != 0}), .limit = 4'000'000};
    const auto all = draw_killings(j->plan, seed, calm.took);
    std::mt19937_64 g(seed);
    const auto first = time_point(static_cast<std::int64_t>(g() % static_cast<std::uint64_t>(calm.took.count())));
    r.prepare = [&](sim::world& w) {
      kill_in(w, all, j->plan);
      w.at(first, [&w] { say_mode(w); });
    };
    r.on_event = [&](sim::world& w, const event_effect& e) {
      if (!e.is<mode_event>()) return;
      ++switched;
      if (e.step + 2 < j->last_step) say_mode(w);
    };
    const auto got = run(r);
    ASSERT_EQ(got.violation, "") << "seed " << seed << ", killed: " << text_of(all, j->plan);
    ASSERT_EQ(differs(got, calm), "") << "seed " << seed << ", killed: " << text_of(all, j->plan);
    killed += got.counts.crashed;
  }
  EXPECT_GE(killed, ran);
  EXPECT_GE(switched, ran);
}

}  // namespace
}  // namespace troupe::testing
