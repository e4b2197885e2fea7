// Crashes and restarts of nodes: lost messages, stale messages and reports to the coordinator.
#include <gtest/gtest.h>

#include "tests/sim/toy_roles.hpp"

namespace troupe::sim {
namespace {

using namespace toy;
using std::chrono::milliseconds;
using std::chrono::seconds;

network_model star() {
  network_model n;
  n.fabric = fabric_kind::star;
  n.bytes_per_second = 1e9;
  n.latency = duration(50'000);
  return n;
}

TEST(crash, messages_in_flight_from_and_to_a_crashed_node_are_lost) {
  cluster c(3, star());
  c.talk_at(0, 0, 1);  // in flight when node 1 crashes
  c.talk_at(0, 1, 2);
  c.talk_at(0, 0, 2);  // not affected by the crash
  c.world().at(duration(60'000), [&] { c.world().crash(1); });
  c.talk_at(200'000, 2, 1);  // to a node that is down
  c.run();
  EXPECT_EQ(c.steps_at(1).size(), 0u);
  EXPECT_EQ(c.steps_at(2).size(), 1u);
  EXPECT_FALSE(c.world().up(1));
  EXPECT_EQ(c.world().find(role_id{1}), nullptr);
  EXPECT_EQ(c.world().counts().crashed, 1u);
  EXPECT_EQ(c.world().counts().lost_in_crash, 3u);
}

TEST(crash, node_that_stays_down_is_reported_after_the_detection_time) {
  cluster c(3, star());
  c.world().at(milliseconds(1), [&] { c.world().crash(2); });
  c.run();
  EXPECT_EQ(c.downs(), std::vector<std::string>{"n3"});
  EXPECT_EQ(c.world().now(), milliseconds(1) + seconds(5));
  EXPECT_EQ(c.world().counts().reported_down, 1u);
}

TEST(crash, node_that_restarts_in_time_is_not_reported) {
  cluster c(3, star());
  c.world().at(milliseconds(1), [&] { c.world().crash(2); });
  c.world().at(milliseconds(2), [&] { c.world().restart(2); });
  c.talk_at(3'000'000, 0, 2);
  c.talk_at(3'000'000, 2, 0);
  c.run();
  EXPECT_TRUE(c.downs().empty());
  EXPECT_EQ(c.starts(2), 1u);
  EXPECT_EQ(c.incarnation(2), 1u);
  EXPECT_EQ(c.steps_at(2).size(), 1u);
  EXPECT_EQ(c.steps_at(0).size(), 1u);
  EXPECT_EQ(c.world().counts().restarted, 1u);
}

TEST(crash, messages_of_an_older_incarnation_are_dropped_and_counted) {
  cluster c(2, star());
  c.talk_at(0, 1, 0);  // arrives after 100 us, when its sender has restarted
  c.world().at(duration(20'000), [&] { c.world().crash(1); });
  c.world().at(duration(40'000), [&] { c.world().restart(1); });
  c.talk_at(50'000, 1, 0);
  std::vector<std::uint32_t> incarnations;
  c.world().on_deliver = [&](const envelope& e, time_point) {
    if (e.h.src == role_id{1}) incarnations.push_back(e.h.incarnation);
  };
  c.run();
  EXPECT_EQ(c.steps_at(0), std::vector<std::uint64_t>{1});
  EXPECT_EQ(incarnations, std::vector<std::uint32_t>{1});
  EXPECT_EQ(c.world().counts().stale, 1u);
}

TEST(crash, tasks_are_lost_with_their_node) {
  class busy final : public role {
   public:
    explicit busy(int& fired) : fired_(fired) {}
    void on(const envelope& e, time_point, effects& out) override {
      if (std::holds_alternative<start>(e.body)) {
        out.run({}, {1e9, 0, "job"}, 1);  // 10 ms
      } else {
        ++fired_;
      }
    }
    int& fired_;
  };
  int fired = 0;
  sim::world w(world_config{});
  w.add(role_id{0}, 0, std::make_unique<busy>(fired));
  envelope e;
  e.h.dst = role_id{0};
  e.body = start{};
  w.inject(e);
  w.at(duration(500'000), [&] { w.crash(0); });
  ASSERT_TRUE(w.run(100));
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(w.counts().lost_in_crash, 1u);
}

TEST(crash, channels_are_reset_when_a_node_restarts) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fault_model m;
    fault drop;
    drop.kind = fault_kind::drop;
    drop.probability = 0.33;
    m.list = {drop};
    cluster c(2, star(), seed, m);
    for (int i = 0; i < 20; ++i) c.talk_at(i * 20'000, 0, 1);
    c.world().at(milliseconds(5), [&] { c.world().crash(1); });
    c.world().at(milliseconds(6), [&] { c.world().restart(1); });
    for (int i = 0; i < 20; ++i) c.talk_at(7'000'000 + i * 20'000, 0, 1);
    for (int i = 0; i < 20; ++i) c.talk_at(7'000'000 + i * 20'000, 1, 0);
    c.run();
    // All later messages arrive, in order, after those from before the crash.
    const auto& got = c.steps_at(1);
    ASSERT_GE(got.size(), 20u) << "seed " << seed;
    for (std::size_t i = 0; i < 20; ++i) ASSERT_EQ(got[got.size() - 20 + i], 20 + i) << "seed " << seed;
    ASSERT_EQ(c.steps_at(0).size(), 20u) << "seed " << seed;
  }
}

TEST(crash, crash_of_a_faults_file_happens_in_its_window) {
  fault_model m;
  fault f;
  f.kind = fault_kind::crash;
  f.from = milliseconds(1);
  f.until = milliseconds(9);
  f.restart_after = milliseconds(1);
  f.times = 3;
  m.list = {f};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (const auto& c : faults(m, seed).crashes(4)) {
      EXPECT_GE(c.at, milliseconds(1));
      EXPECT_LT(c.at, milliseconds(9));
      EXPECT_GT(c.node, 0u) << "node 0 has the coordinator: it crashes only if the fault names it";
      EXPECT_LT(c.node, 4u);
    }
    cluster c(4, star(), seed, m);
    c.run();
    EXPECT_GE(c.world().counts().crashed, 1u);
    EXPECT_EQ(c.world().counts().crashed, c.world().counts().restarted);
    EXPECT_TRUE(c.world().up(1) && c.world().up(2) && c.world().up(3));
  }
}

}  // namespace
}  // namespace troupe::sim
