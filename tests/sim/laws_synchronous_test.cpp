// Invariants of the other synchronous modes: sandblaster and the tree reducer equal bsp bit for
// bit; group_sync applies every update of a group to the master once.
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {
namespace {

std::string undisturbed_bsp(mode_shape s, device& dev) {
  s.mode = "bsp", s.reducer = "server", s.options.clear();
  s.workers = s.shards = s.groups = s.server_groups = 1;
  return run({.job = prepare_mode(s), .config = draw_world(1, 0, &dev)}).bytes();
}

// Counts first results, and second ones: pushes of packets that another worker has already pushed.
class copy_counter final : public checker {
 public:
  std::uint64_t second = 0, first = 0;

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    const auto* p = std::get_if<push>(&s.in.body);
    if (!p || s.in.h.attempt > 0 || !is(j.plan, s.self, role_kind::shard)) return;
    auto& who = by_[{p->block, s.in.h.step, p->first}];
    who.insert(s.in.h.src);
    (who.size() > 1 ? second : first) += 1;
  }
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, std::set<role_id>> by_;
};

TEST(laws_sandblaster, equals_bsp_bit_for_bit_and_only_the_first_result_counts) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  std::uint64_t copies = 0;
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "sandblaster", .rule = "momentum"});
    shape.packets = 2 * shape.workers + static_cast<std::uint32_t>(seed % 7);
    shape.options = {{"portion", std::to_string(1u << seed % 3)}};
    auto config = draw_world(seed, shape.workers, dev.get());
    if (seed % 4 == 0) config.compute.slow = {{1, 300.0}};  // a worker that has almost stopped
    copy_counter answers;
    clocked_checker order(0);
    const auto got = run({.job = prepare_mode(shape), .config = config, .checkers = {&answers, &order}});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), undisturbed_bsp(shape, *dev)) << "seed " << seed;
    copies += answers.second;
    sums.add(got.counts);
  }
  EXPECT_GT(copies, seeds());
  sums.expect_all();
}

TEST(laws_tree, weights_equal_the_server_reducer_bit_for_bit) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "bsp", .rule = "momentum", .reducer = "tree"});
    shape.arity = 2u << seed % 3;  // 2, 4, 8
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), undisturbed_bsp(shape, *dev))
        << "seed " << seed << ", arity " << shape.arity << ", workers " << shape.workers;
    sums.add(got.counts);
  }
  sums.expect_all();
}

TEST(laws_tree, mode_switch_is_refused) {
  const auto dev = make_cpu_device();
  mode_run r{.job = prepare_mode({.mode = "bsp", .workers = 4, .reducer = "tree"}), .config = draw_world(1, 0, dev.get())};
  r.prepare = [](sim::world& w) {
    w.at(duration(300'000), [&w] {
      envelope e;
      e.h.dst = role_id{0};
      e.body = command{mode_command{{"bsp"}}};
      w.inject(e);
    });
  };
  std::string why;
  r.on_event = [&](sim::world&, const event_effect& e) {
    if (e.is<refused_event>()) why = message_of(e);
  };
  EXPECT_EQ(run(r).violation, "");
  EXPECT_NE(why.find("tree"), std::string::npos) << why;
}

mode_shape groups_tally(std::uint64_t seed) {
  mode_shape s{.mode = "group_sync", .shards = 1 + static_cast<std::uint32_t>(seed % 2), .net = "tally"};
  s.groups = s.server_groups = 2 + static_cast<std::uint32_t>(seed % 3);
  s.workers = s.groups * (1 + static_cast<std::uint32_t>(seed / 3 % 3));
  s.packets = s.workers * (1 + static_cast<std::uint32_t>(seed / 9 % 2));
  s.steps = 20 + seed % 5;
  s.lr = -static_cast<double>(s.packets / s.groups);
  s.options = {{"sync_freq", std::to_string(1 + seed % 6)}};
  return s;
}

TEST(laws_group_sync, every_update_of_a_group_reaches_the_master_once) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    const auto shape = groups_tally(seed);
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(off_ledger(got, shape), "") << "seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

TEST(laws_group_sync, one_group_is_bsp_bit_for_bit) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(100)) {
    auto shape = draw_shape(seed, {.mode = "group_sync", .rule = "momentum"});
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), undisturbed_bsp(shape, *dev)) << "seed " << seed;
  }
}

TEST(laws_hogwild, one_worker_is_plain_training_to_rounding) {
  const auto dev = make_cpu_device();
  for (const auto seed : law_seeds(100)) {
    auto shape = draw_shape(seed, {.mode = "hogwild", .rule = seed % 2 ? "momentum" : "adagrad"});
    shape.workers = 1;
    shape.together = true;
    const auto got = run({.job = prepare_mode(shape), .config = draw_world(seed, 0, dev.get())});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    auto plain = shape;
    plain.mode = "bsp";
    const auto want = run({.job = prepare_mode(plain), .config = draw_world(seed, 0, dev.get())});
    for (std::size_t p = 0; p < want.weights.size(); ++p)
      for (std::int64_t i = 0; i < want.weights[p].second.count(); ++i)
        ASSERT_NEAR(got.weights.at(p).second.data<double>()[i], want.weights[p].second.data<double>()[i], 1e-9) << "seed " << seed;
  }
}

TEST(laws_hogwild, additions_are_lost_or_applied_once_never_twice) {
  const auto dev = make_cpu_device();
  std::uint64_t lost = 0, kept = 0;
  for (const auto seed : law_seeds()) {
    auto shape = draw_shape(seed, {.mode = "hogwild", .net = "tally"});
    shape.together = true;
    shape.packets = shape.workers;
    shape.lr = -1;
    auto config = draw_world(seed, 0, dev.get());
    config.compute.cores = 4;
    const auto got = run({.job = prepare_mode(shape), .config = config});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    for (const auto& [name, w] : got.weights)
      for (std::int64_t i = 0; i < w.count(); ++i) {
        const double n = w.data<double>()[i];
        ASSERT_TRUE(std::abs(n) < 1e-9 || std::abs(n - 1) < 1e-9) << name << " " << i << " is " << n << ", seed " << seed;
        (n > 0.5 ? kept : lost) += 1;
      }
  }
  EXPECT_GT(lost, 0u) << "no addition was lost in any run";
  EXPECT_GT(kept, lost);
}

// Groups of one worker, each on its own node with its own array: no addition is lost within a node
// or between nodes.
TEST(laws_hogwild, every_update_of_a_server_group_reaches_the_first_once) {
  const auto dev = make_cpu_device();
  fault_sums sums;
  for (const auto seed : law_seeds()) {
    mode_shape shape{.mode = "hogwild", .shards = 1 + static_cast<std::uint32_t>(seed % 2), .net = "tally"};
    shape.workers = shape.groups = shape.server_groups = 2 + static_cast<std::uint32_t>(seed % 6);
    shape.options = {{"sync_freq", std::to_string(1 + seed % 6)}};
    shape.lr = -1;
    auto config = draw_world(seed, shape.workers, dev.get());
    config.compute.cores = 1;  // a node's additions do not overlap
    const auto got = run({.job = prepare_mode(shape), .config = config});
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(off_ledger(got, shape), "") << "seed " << seed;
    sums.add(got.counts);
  }
  sums.expect_all();
}

}  // namespace
}  // namespace troupe::testing
