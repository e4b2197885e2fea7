// Every kind of fault happens, is counted, and does not break the guarantee to roles: each message
// of a pair, in order.
#include "runtime/sim/faults.hpp"

#include <gtest/gtest.h>

#include "tests/sim/toy_roles.hpp"

namespace troupe::sim {
namespace {

using namespace toy;
using std::chrono::milliseconds;

network_model jittery_star() {
  network_model n;
  n.fabric = fabric_kind::star;
  n.bytes_per_second = 1e9;
  n.latency = duration(1000);
  n.jitter = duration(2000);
  return n;
}

fault one(fault_kind k, double probability) {
  fault f;
  f.kind = k;
  f.probability = probability;
  f.least = duration(1000);
  f.most = duration(400000);
  return f;
}

// Three nodes send each other `n` messages each, one every 10 us.
void chatter(cluster& c, int n) {
  for (int i = 0; i < n; ++i)
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to)
        if (from != to) c.talk_at(i * 10000, from, to);
}

// Each role received every number of 0 .. n - 1 twice, once from each of the two others.
void expect_all(const cluster& c, std::size_t n, std::uint64_t seed) {
  for (int to = 0; to < 3; ++to) {
    auto got = c.steps_at(to);
    ASSERT_EQ(got.size(), 2 * n) << "role " << to << ", seed " << seed;
    std::sort(got.begin(), got.end());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i / 2) << "seed " << seed;
  }
}

class wire_faults : public ::testing::TestWithParam<int> {
 protected:
  network_model network() const {
    if (GetParam() == 0) return jittery_star();
    return {};  // uniform
  }
};

TEST_P(wire_faults, loss_reordering_repetition_and_delay_are_hidden_and_counted) {
  fault_counts sum;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    fault_model m;
    m.list = {one(fault_kind::drop, 0.3), one(fault_kind::reorder, 0.3), one(fault_kind::duplicate, 0.3),
              one(fault_kind::delay, 0.2)};
    cluster c(3, network(), seed, m);
    chatter(c, 60);
    c.run();
    expect_all(c, 60, seed);
    const auto& n = c.world().counts();
    sum.dropped += n.dropped, sum.reordered += n.reordered, sum.duplicated_on_wire += n.duplicated_on_wire,
        sum.delayed += n.delayed;
    sum.resent += n.resent, sum.wire_duplicates += n.wire_duplicates, sum.held += n.held;
  }
  EXPECT_GT(sum.dropped, 1000u);
  EXPECT_GT(sum.reordered, 1000u);
  EXPECT_GT(sum.duplicated_on_wire, 1000u);
  EXPECT_GT(sum.delayed, 1000u);
  EXPECT_GT(sum.resent, 1000u);
  EXPECT_GT(sum.wire_duplicates, 1000u);
  EXPECT_GT(sum.held, 1000u);
}

TEST_P(wire_faults, delay_alone_needs_no_channel_and_keeps_order) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fault_model m;
    m.list = {one(fault_kind::delay, 0.5)};
    EXPECT_FALSE(faults(m, 1).unreliable());
    cluster c(3, network(), seed, m);
    for (int i = 0; i < 50; ++i) c.talk_at(i * 1000, 1, 0);
    c.run();
    ASSERT_EQ(c.steps_at(0).size(), 50u);
    for (std::uint64_t i = 0; i < 50; ++i) ASSERT_EQ(c.steps_at(0)[i], i) << "seed " << seed;
    EXPECT_GT(c.world().counts().delayed, 5u);
    EXPECT_EQ(c.world().counts().resent, 0u);
  }
}

TEST_P(wire_faults, all_messages_arrive_after_a_partition) {
  fault_model m;
  fault f;
  f.kind = fault_kind::partition;
  f.nodes = {0};
  f.from = duration(100'000);
  f.until = milliseconds(20);
  m.list = {f};
  cluster c(3, network(), 3, m);
  chatter(c, 60);
  c.run();
  expect_all(c, 60, 3);
  EXPECT_GT(c.world().counts().cut_off, 10u);
  // Messages that were cut off arrive after the partition has ended.
  EXPECT_GT(c.world().now(), milliseconds(20));
}

TEST_P(wire_faults, cut_of_the_data_plane_stops_one_way_or_both) {
  const auto cut_off = [&](fault_plane plane, std::vector<std::uint32_t> to, bool both) {
    fault f;
    f.kind = fault_kind::cut;
    f.nodes = {0};
    f.to = std::move(to);
    f.plane = plane;
    f.both_ways = both;
    f.until = milliseconds(20);
    EXPECT_EQ(faults({{f}}, 1).unreliable(), plane != fault_plane::control);
    cluster c(3, network(), 3, {{f}});
    for (int i = 0; i < 60; ++i) c.talk_at(i * 10000, 1, 0);
    c.run();
    EXPECT_EQ(c.steps_at(0).size(), 60u) << "all arrive after the end";
    return c.world().counts();
  };
  // Node 1 sends, so a cut from node 0 stops only acknowledgements.
  const auto back = cut_off(fault_plane::data, {1}, false);
  EXPECT_GT(back.cut_off, 10u);
  EXPECT_GT(back.wire_duplicates, 10u);
  const auto both = cut_off(fault_plane::both, {}, true);
  EXPECT_GT(both.cut_off, 10u);
  EXPECT_LT(both.wire_duplicates, back.wire_duplicates);
  EXPECT_EQ(cut_off(fault_plane::data, {2}, true).cut_off, 0u);
  EXPECT_EQ(cut_off(fault_plane::control, {}, true).cut_off, 0u);
}

INSTANTIATE_TEST_SUITE_P(fabrics, wire_faults, ::testing::Values(0, 1));

TEST(faults, copy_above_the_channel_reaches_the_role) {
  fault_model m;
  auto f = one(fault_kind::duplicate, 0.5);
  f.above = true;
  m.list = {f};
  EXPECT_FALSE(faults(m, 1).unreliable());
  cluster c(3, jittery_star(), 1, m);
  chatter(c, 60);
  c.run();
  const auto& n = c.world().counts();
  EXPECT_GT(n.duplicated_above, 50u);
  EXPECT_EQ(c.steps_at(0).size() + c.steps_at(1).size() + c.steps_at(2).size(), 360u + n.duplicated_above);
}

TEST(faults, tasks_of_slow_nodes_and_stragglers_take_longer) {
  class worker final : public role {
   public:
    void on(const envelope& e, time_point now, effects& out) override {
      if (std::holds_alternative<start>(e.body)) out.run({}, {1e6, 0, "forward"}, 1);
      if (std::holds_alternative<finished>(e.body)) done = now;
    }
    time_point done{};
  };
  const auto time_of = [](compute_model c, fault_model f, std::uint64_t seed, fault_counts& counts) {
    c.flops_per_second = 1e9;
    c.floor = {};
    sim::world w(world_config{seed, {}, c, nullptr, std::move(f), {}});
    w.add(role_id{0}, 0, std::make_unique<worker>());
    envelope e;
    e.h.dst = role_id{0};
    e.body = start{};
    w.inject(e);
    EXPECT_TRUE(w.run(100));
    counts = w.counts();
    return static_cast<worker*>(w.find(role_id{0}))->done;
  };
  fault_counts n;
  EXPECT_EQ(time_of({}, {}, 1, n), milliseconds(1));
  compute_model slow;
  slow.slow = {{0, 3.0}};
  EXPECT_EQ(time_of(slow, {}, 1, n), milliseconds(3));
  fault_model f;
  fault s;
  s.kind = fault_kind::slow;
  s.nodes = {0};
  s.factor = 5;
  s.until = milliseconds(1);
  f.list = {s};
  EXPECT_EQ(time_of({}, f, 1, n), milliseconds(5));
  EXPECT_EQ(n.slowed, 1u);
  compute_model drawn;
  drawn.kind = straggle::lognormal;
  drawn.spread = 0.5;
  double log_sum = 0;
  bool differ = false;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const auto t = time_of(drawn, {}, seed, n);
    EXPECT_EQ(n.straggled, 1u);
    log_sum += std::log(static_cast<double>(t.count()) / 1e6);
    differ = differ || t != milliseconds(1);
  }
  EXPECT_TRUE(differ);
  EXPECT_NEAR(log_sum / 400, 0, 0.1);  // the median is unchanged
  drawn.kind = straggle::exponential;
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) sum += static_cast<double>(time_of(drawn, {}, seed, n).count()) / 1e6;
  EXPECT_NEAR(sum / 400, 1.5, 0.1);
}

TEST(faults, same_seed_gives_the_same_trace_with_all_faults) {
  const auto trace = [](std::uint64_t seed) {
    fault_model m;
    m.list = {one(fault_kind::drop, 0.2), one(fault_kind::reorder, 0.2), one(fault_kind::duplicate, 0.2),
              one(fault_kind::delay, 0.2)};
    cluster c(3, jittery_star(), seed, m);
    chatter(c, 60);
    c.run();
    return c.world().trace_state();
  };
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(trace(seed), trace(seed)) << "seed " << seed;
  EXPECT_NE(trace(1), trace(2));
}

// A role that records what its clock shows at every message.
class watchful final : public role {
 public:
  void on(const envelope&, time_point now, effects&) override { read.push_back(now); }
  std::vector<time_point> read;
};

TEST(faults, skewed_clock_reads_ahead_and_runs_fast) {
  fault_model m;
  fault f;
  f.kind = fault_kind::skew;
  f.nodes = {1};
  f.least = milliseconds(7);
  f.factor = 1.25;
  m.list = {f};
  sim::world w(world_config{1, {}, {}, nullptr, m, {}});
  for (std::uint32_t i = 0; i < 2; ++i) {
    w.add(role_id{i}, i, std::make_unique<watchful>());
    envelope e;
    e.h.dst = role_id{i};
    e.body = start{};
    w.inject(e);
    w.at(milliseconds(100), [&w, e] { w.inject(e); });
  }
  EXPECT_TRUE(w.run(100));
  const auto& right = static_cast<watchful*>(w.find(role_id{0}))->read;
  const auto& wrong = static_cast<watchful*>(w.find(role_id{1}))->read;
  EXPECT_EQ(right, (std::vector<time_point>{milliseconds(0), milliseconds(100)}));
  EXPECT_EQ(wrong, (std::vector<time_point>{milliseconds(7), milliseconds(132)}));
}

TEST(faults, slow_disk_skips_checkpoints) {
  class checkpointing final : public role {
   public:
    void on(const envelope& e, time_point, effects& out) override {
      store_effect s{store_effect::kind_of::checkpoint, e.h.step, {}, {}};
      s.named.emplace_back("w", tensor::declare({1000}, dtype::f32));
      out.store(std::move(s));
    }
  };
  const auto run = [](double factor, fault_counts& counts) {
    fault_model m;
    fault f;
    f.kind = fault_kind::slow_disk;
    f.nodes = {0};
    f.factor = factor;
    if (factor != 1) m.list = {f};
    world_config c{1, {}, {}, nullptr, m, {}};
    c.disk = {4e6, milliseconds(1)};  // 2 ms per checkpoint here
    sim::world w(c);
    w.add(role_id{0}, 0, std::make_unique<checkpointing>());
    std::vector<std::int64_t> took;
    w.on_stored = [&](std::uint64_t, time_point begun) { took.push_back((w.now() - begun).count() / 1000); };
    for (int i = 0; i < 10; ++i)
      w.at(milliseconds(5 * i), [&w, i] {
        envelope e;
        e.h.dst = role_id{0};
        e.h.step = static_cast<std::uint64_t>(i);
        e.body = start{};
        w.inject(e);
      });
    EXPECT_TRUE(w.run(1000));
    counts = w.counts();
    return took;
  };
  fault_counts n;
  EXPECT_EQ(run(1, n), std::vector<std::int64_t>(10, 2000));
  EXPECT_EQ(n.left_out, 0u);
  const auto slow = run(6, n);
  EXPECT_EQ(slow.front(), 12000);
  EXPECT_GT(n.left_out, 3u);
  EXPECT_EQ(n.stored + n.left_out, 10u);
  EXPECT_EQ(n.slow_stores, n.stored);
}

}  // namespace
}  // namespace troupe::sim
