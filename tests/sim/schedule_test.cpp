// Schedules of faults: what is drawn from a model, when, for which nodes, and that a list of
// happenings becomes a model with exactly this schedule.
#include "runtime/sim/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/sim/happenings.hpp"

namespace troupe::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using node_list = std::vector<std::uint32_t>;

fault fault_of(fault_kind k) {
  fault f;
  f.kind = k;
  return f;
}

fault kills_at_rate(double mean, double shape = 1) {
  auto f = fault_of(fault_kind::kill);
  f.when = shape == 1 ? crash_times::exponential : crash_times::weibull;
  f.mean = mean;
  f.shape = shape;
  f.restart_after = seconds(60);
  return f;
}

TEST(schedule, draws_faults_at_moments_in_their_windows) {
  auto f = fault_of(fault_kind::crash);
  f.from = seconds(1);
  f.until = seconds(9);
  f.restart_after = milliseconds(300);
  f.times = 3;
  std::map<std::uint32_t, int> hit;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto list = draw_schedule({{f}}, 4, seed);
    ASSERT_EQ(list.size(), 3u);
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
    for (const auto& h : list) {
      EXPECT_EQ(h.kind, fault_kind::kill) << "crash is another word for kill";
      EXPECT_GE(h.at, seconds(1));
      EXPECT_LT(h.at, seconds(9));
      EXPECT_EQ(h.length, milliseconds(300));
      ASSERT_EQ(h.nodes.size(), 1u);
      ++hit[h.nodes[0]];
    }
  }
  EXPECT_EQ(hit.size(), 3u) << "all nodes but node 0, which has the coordinator";
  EXPECT_EQ(hit.count(0), 0u);
  f.nodes = {0};
  EXPECT_EQ(draw_schedule({{f}}, 4, 1).front().nodes, node_list{0}) << "a fault may name it";
  EXPECT_TRUE(draw_schedule({{fault_of(fault_kind::kill)}}, 1, 1).empty()) << "the only node has the coordinator";
}

TEST(schedule, keeps_windows_and_leaves_missing_nodes_out) {
  auto slow = fault_of(fault_kind::slow);
  slow.nodes = {7, 2, 1, 2};
  slow.factor = 3;
  auto cut = fault_of(fault_kind::cut);
  cut.from = seconds(1);
  cut.until = seconds(4);
  cut.nodes = {1};
  cut.to = {9, 0};
  cut.plane = fault_plane::control;
  auto nobody = cut;
  nobody.to = {9};
  const auto list = draw_schedule({{cut, nobody, fault_of(fault_kind::drop), slow}}, 4, 1);
  ASSERT_EQ(list.size(), 2u) << "a cut from nodes that do not exist is not one from all others";
  EXPECT_EQ(list[0].kind, fault_kind::slow);
  EXPECT_EQ(list[0].nodes, (node_list{1, 2}));
  EXPECT_EQ(list[0].factor, 3);
  EXPECT_LT(list[0].length, duration{}) << "no end";
  EXPECT_EQ(list[1].length, seconds(3));
  EXPECT_EQ(list[1].to, node_list{0});
  EXPECT_EQ(list[1].plane, fault_plane::control);
}

TEST(schedule, hits_the_nodes_of_a_rack_or_group_at_once) {
  auto f = fault_of(fault_kind::lose);
  f.rack = 2;
  f.times = 20;
  for (const auto& h : draw_schedule({{f}}, 5, 3))
    EXPECT_TRUE(h.nodes == node_list{1} || h.nodes == (node_list{2, 3}) || h.nodes == node_list{4}) << text_of(h);
  f.rack = 0;
  f.groups = {{4, 3, 0}};
  EXPECT_EQ(draw_schedule({{f}}, 4, 1).front().nodes, (node_list{0, 3}));
  f.when = crash_times::moments;
  f.restart_after = seconds(1);
  f.moments = {{seconds(3), 2, seconds(9)}, {seconds(2), 1, duration{-1}}, {seconds(1), 9, duration{-1}}};
  const auto list = draw_schedule({{f}}, 4, 1);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].length, seconds(1));
  EXPECT_EQ(list[1].length, seconds(9));
}

TEST(schedule, times_between_faults_have_the_given_mean_and_shape) {
  for (const double shape : {0.7, 1.0, 3.0}) {
    auto f = kills_at_rate(3600, shape);
    f.nodes = {1};
    schedule s({{f}}, 2, 5);
    double sum = 0, squares = 0;
    constexpr int n = 20000;
    auto last = -f.restart_after;
    for (int i = 0; i < n; ++i) {
      const auto h = s.next();
      ASSERT_TRUE(h.has_value());
      const auto up = seconds_of(h->at - last - f.restart_after);
      sum += up, squares += up * up, last = h->at;
    }
    EXPECT_NEAR(sum / n, 3600, 100) << shape;
    const double g1 = std::tgamma(1 + 1 / shape), g2 = std::tgamma(1 + 2 / shape);
    const double deviation = 3600 / g1 * std::sqrt(g2 - g1 * g1);
    EXPECT_NEAR(std::sqrt(squares / n - sum / n * sum / n), deviation, 0.05 * deviation) << shape;
  }
}

TEST(schedule, thousand_nodes_fail_for_thirty_days_at_their_rate) {
  const auto f = kills_at_rate(500 * 3600);
  const auto list = draw_schedule({{f}}, 1000, 7, hours(24 * 30));
  EXPECT_NEAR(static_cast<double>(list.size()), 999 * 720 / 500.0, 4 * std::sqrt(1440));
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
  // Another rate does not move a fault of the first, and more nodes do not move those of the
  // others.
  auto g = kills_at_rate(3600);
  g.nodes = {3};
  g.kind = fault_kind::stop;
  auto more = draw_schedule({{f, g}}, 1010, 7, hours(24 * 30));
  std::erase_if(more, [](const happening& h) { return h.kind == fault_kind::stop || h.nodes[0] >= 1000; });
  EXPECT_EQ(list, more);
}

TEST(schedule, node_that_never_restarts_fails_once_at_a_rate) {
  auto f = kills_at_rate(1);
  f.restart_after = duration{-1};
  f.until = hours(1);
  EXPECT_EQ(draw_schedule({{f}}, 4, 1).size(), 3u);
  f.until = milliseconds(1);
  EXPECT_LT(draw_schedule({{f}}, 4, 1).size(), 3u);
}

TEST(schedule, depends_on_its_seed_only) {
  auto f = kills_at_rate(600);
  f.until = hours(10);
  const fault_model m{{f, kills_at_rate(900)}};
  EXPECT_EQ(draw_schedule(m, 9, 4, hours(10)), draw_schedule(m, 9, 4, hours(10)));
  EXPECT_NE(draw_schedule(m, 9, 4, hours(10)), draw_schedule(m, 9, 5, hours(10)));
  EXPECT_EQ(draw_schedule({{f}}, 9, 4), draw_schedule({{f, fault_of(fault_kind::delay)}}, 9, 4));
}

TEST(schedule, list_of_happenings_becomes_a_model_that_repeats_it) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto list = random_happenings(seed, 20);
    ASSERT_EQ(draw_schedule(to_model(list), 20, seed * 31), list) << "seed " << seed;
  }
}

TEST(schedule, keeps_only_the_faults_of_the_wire) {
  fault_model m{{fault_of(fault_kind::kill), fault_of(fault_kind::drop), fault_of(fault_kind::cut), fault_of(fault_kind::delay)},
                seconds(9)};
  const auto w = wire_faults(m);
  ASSERT_EQ(w.list.size(), 2u);
  EXPECT_EQ(w.list[0].kind, fault_kind::drop);
  EXPECT_EQ(w.list[1].kind, fault_kind::delay);
  EXPECT_EQ(w.resend, seconds(9));
}

TEST(happening, cuts_only_its_ways_and_plane) {
  happening h;
  h.nodes = {1, 2};
  EXPECT_FALSE(cuts(h, fault_plane::data, 1, 3)) << "a kill";
  h.kind = fault_kind::cut;
  EXPECT_TRUE(cuts(h, fault_plane::data, 1, 3));
  EXPECT_FALSE(cuts(h, fault_plane::data, 3, 1));
  EXPECT_FALSE(cuts(h, fault_plane::data, 1, 2)) << "one of them is no other";
  h.to = {2, 3};
  EXPECT_TRUE(cuts(h, fault_plane::data, 1, 2));
  EXPECT_FALSE(cuts(h, fault_plane::data, 2, 2));
  EXPECT_FALSE(cuts(h, fault_plane::data, 1, 0));
  h.both_ways = true;
  EXPECT_TRUE(cuts(h, fault_plane::data, 3, 1));
  h.plane = fault_plane::control;
  EXPECT_FALSE(cuts(h, fault_plane::data, 3, 1));
  EXPECT_TRUE(cuts(h, fault_plane::control, 3, 1));
  h.kind = fault_kind::partition;
  EXPECT_TRUE(cuts(h, fault_plane::data, 0, 1));
  EXPECT_TRUE(cuts(h, fault_plane::data, 1, 0));
  EXPECT_FALSE(cuts(h, fault_plane::data, 1, 2));
}

TEST(happening, is_one_line_of_text) {
  happening h;
  h.at = milliseconds(1500);
  h.nodes = {1, 2};
  EXPECT_EQ(text_of(h), "1.5 s: kill n2 n3");
  h.length = milliseconds(200);
  EXPECT_EQ(text_of(h, {"a", "b"}), "1.5 s: kill b n3, back after 0.2 s");
  h.kind = fault_kind::cut;
  h.plane = fault_plane::data;
  EXPECT_EQ(text_of(h), "1.5 s: cut n2 n3 from all others, one way, data, for 0.2 s");
  h.kind = fault_kind::slow;
  h.factor = 2.5;
  h.nodes.resize(12, 5);
  EXPECT_EQ(text_of(h), "1.5 s: slow n2 n3 n6 n6 n6 n6 n6 n6 and 4 more by 2.5, for 0.2 s");
}

}  // namespace
}  // namespace troupe::sim
