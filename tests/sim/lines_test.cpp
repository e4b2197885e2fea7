// Connections between simulated daemons: dial, order, and how each way to end one looks to both
// sides.
#include "runtime/sim/lines.hpp"

#include <gtest/gtest.h>

#include "runtime/sim/world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr duration most = milliseconds(2);
constexpr auto control = plane::control;
constexpr auto data = plane::data;

struct happening {
  time_point at{};
  std::uint32_t node = 0, peer = 0;
  plane on = control;
  std::string what;  // "up <incarnation>" or the reason of on_down
  friend bool operator==(const happening&, const happening&) = default;
};

// Daemons that record what their lines tell them.
class net {
 public:
  explicit net(std::uint32_t nodes, std::uint64_t seed = 1)
      : random_(seed),
        lines_(
            world_, random_, {},
            [this](plane, auto, auto) { return duration(50'000 + static_cast<std::int64_t>(random_.below(1'950'000))); }, most) {
    for (std::uint32_t n = 0; n < nodes; ++n) users_.push_back(std::make_unique<user_of>(*this, n));
    for (std::uint32_t n = 0; n < nodes; ++n) lines_.open(n, 1, *users_[n]);
  }
  lines* operator->() { return &lines_; }
  void open(std::uint32_t node, std::uint64_t incarnation) { lines_.open(node, incarnation, *users_[node]); }
  void connect(plane p, std::uint32_t from, std::uint32_t to) {
    lines_.dial(p, from, to, seconds(5));
    run(milliseconds(10));
    EXPECT_TRUE(lines_.up(p, from, to) && lines_.up(p, to, from));
    log.clear();
  }
  void run(duration time) {
    bool over = false;
    world_.in(time, [&] { over = true; });
    while (!over) world_.step();
  }
  void send(std::uint32_t from, std::uint32_t to, int number) {
    lines_.send(from, to, [this, number] { arrived.push_back(number); });
  }
  // What the node's daemon was told, without times.
  std::vector<std::string> told(std::uint32_t node) const {
    std::vector<std::string> all;
    for (const auto& h : log)
      if (h.node == node) all.push_back(h.what);
    return all;
  }
  world& when() { return world_; }

  std::vector<happening> log;
  std::vector<int> arrived;
  std::function<void(const happening&)> on_happening;

 private:
  struct user_of final : line_user {
    user_of(net& n, std::uint32_t i) : all(n), me(i) {}
    void on_up(plane p, std::uint32_t peer, std::uint64_t incarnation) override {
      add(p, peer, "up " + std::to_string(incarnation));
    }
    void on_down(plane p, std::uint32_t peer, const std::string& reason) override { add(p, peer, reason); }
    void add(plane p, std::uint32_t peer, std::string what) {
      all.log.push_back({all.world_.now(), me, peer, p, std::move(what)});
      if (all.on_happening) all.on_happening(all.log.back());
    }
    net& all;
    std::uint32_t me;
  };
  world world_{world_config{}};
  random random_;
  lines lines_;
  std::vector<std::unique_ptr<user_of>> users_;
};

using texts = std::vector<std::string>;
const std::string closed = "peer_closed: the connection was closed";
const std::string silent = "peer_silent: no data received for 5 s";

TEST(lines, a_dial_connects_both_sides_with_one_session) {
  net n(2);
  n->dial(data, 0, 1, seconds(5));
  n.run(most);
  EXPECT_EQ(n.told(0), texts{"up 1"});
  EXPECT_EQ(n.told(1), texts{"up 1"});
  EXPECT_NE(n->session(data, 0, 1), 0u);
  EXPECT_EQ(n->session(data, 0, 1), n->session(data, 1, 0));
  EXPECT_FALSE(n->up(control, 0, 1)) << "the planes are apart";
}

TEST(lines, a_dial_fails_at_its_deadline_or_connects_when_the_peer_is_there) {
  net n(2);
  n->close(1, true);
  n->dial(control, 0, 1, milliseconds(450));
  n.run(seconds(1));
  ASSERT_EQ(n.told(0), texts{"connect_deadline: no answer"});
  EXPECT_EQ(n.log.front().at, milliseconds(500));
  n->dial(control, 0, 1, seconds(5));
  n.run(milliseconds(250));
  n.open(1, 2);
  n.run(milliseconds(150));
  EXPECT_EQ(n.told(0), (texts{"connect_deadline: no answer", "up 2"}));
}

TEST(lines, a_second_dial_extends_the_first_and_makes_no_second_connection) {
  net n(2);
  n->close(1, true);
  n->dial(control, 0, 1, milliseconds(150));
  n->dial(control, 0, 1, milliseconds(950));
  n.run(milliseconds(700));
  EXPECT_EQ(n.told(0), texts{});
  n.open(1, 2);
  n.run(milliseconds(500));
  EXPECT_EQ(n.told(0), texts{"up 2"});
}

TEST(lines, the_dial_of_a_killed_daemon_is_not_that_of_its_successor) {
  net n(2);
  n->close(1, true);
  n->dial(control, 0, 1, seconds(5));
  n.run(milliseconds(50));
  n->close(0, false);
  n.open(0, 2);
  n->dial(control, 0, 1, milliseconds(450));
  n.run(milliseconds(300));
  EXPECT_EQ(n.told(0), texts{});
  n.run(milliseconds(300));
  EXPECT_EQ(n.told(0), texts{"connect_deadline: no answer"});
}

TEST(lines, messages_arrive_in_order_even_when_sent_before_the_other_side_is_up) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    net n(2, seed);
    bool sent = false;
    n.on_happening = [&](const happening& h) {
      if (std::exchange(sent, true)) return;
      for (int i = 0; i < 50; ++i) n.send(h.node, h.peer, i);
    };
    n->dial(control, 0, 1, seconds(5));
    n.run(milliseconds(100));
    std::vector<int> all(50);
    for (int i = 0; i < 50; ++i) all[static_cast<std::size_t>(i)] = i;
    EXPECT_EQ(n.arrived, all) << "seed " << seed;
    EXPECT_EQ(n->lost(), 0u);
  }
}

TEST(lines, a_message_without_a_connection_is_lost) {
  net n(2);
  EXPECT_FALSE(n->send(0, 1, [] { FAIL(); }));
  n.connect(data, 0, 1);
  EXPECT_FALSE(n->send(0, 1, [] { FAIL(); })) << "the data plane is not the control plane";
  EXPECT_EQ(n->lost(), 2u);
}

TEST(lines, peers_see_a_killed_daemons_connection_close) {
  net n(3);
  n.connect(control, 0, 1);
  n->close(1, false);
  n.run(most);
  EXPECT_EQ(n.told(0), texts{closed});
  EXPECT_EQ(n.told(1), texts{});
  EXPECT_EQ(n.told(2), texts{});
  EXPECT_EQ(n->session(control, 1, 0), 0u);
}

TEST(lines, messages_for_a_killed_daemon_are_lost) {
  net n(2);
  n.connect(control, 0, 1);
  n.send(0, 1, 7);
  n->close(1, false);
  n.open(1, 2);
  n.run(seconds(10));
  EXPECT_EQ(n.arrived, std::vector<int>{});
  EXPECT_EQ(n->lost(), 1u);
}

TEST(lines, peers_of_a_lost_machine_drop_the_connection_after_silence) {
  net n(2);
  n.connect(control, 0, 1);
  const auto lost_at = n.when().now();
  n->close(1, true);
  n.run(milliseconds(3990));
  EXPECT_EQ(n.told(0), texts{});
  n.run(milliseconds(1020));
  ASSERT_EQ(n.told(0), texts{"peer_silent: no data received"});
  EXPECT_LE(n.log.front().at - lost_at, seconds(5));
}

TEST(lines, peers_of_a_lost_machine_that_is_back_drop_the_connection_sooner) {
  net n(2);
  n.connect(control, 0, 1);
  n->close(1, true);
  n.run(milliseconds(100));
  n.open(1, 2);
  n.run(2 * most + seconds(1));
  EXPECT_EQ(n.told(0), texts{"peer_reset: the peer does not have this connection"});
}

TEST(lines, a_newer_connection_replaces_one_that_a_lost_machine_has_left) {
  net n(2);
  n.connect(control, 0, 1);
  const auto before = n->session(control, 0, 1);
  n->close(1, true);
  n.open(1, 2);
  n->dial(control, 1, 0, seconds(5));
  n.run(most);
  EXPECT_EQ(n.told(0), (texts{"replaced: the peer has a newer connection", "up 2"}));
  EXPECT_EQ(n.told(1), texts{"up 1"});
  EXPECT_GT(n->session(control, 0, 1), before);
  n.log.clear();
  n.run(seconds(10));
  EXPECT_TRUE(n.log.empty()) << "the new connection is kept: " << n.log.front().what;
}

TEST(lines, peers_of_a_stopped_daemon_drop_the_connection_after_silence) {
  net n(2);
  n.connect(data, 0, 1);
  const auto stopped_at = n.when().now();
  n->stop(1);
  n.run(seconds(6));
  ASSERT_EQ(n.told(0), texts{silent});
  EXPECT_EQ(n.log.front().at - stopped_at, seconds(5));
  EXPECT_EQ(n.told(1), texts{closed});
  n->dial(data, 0, 1, milliseconds(150));
  n.run(milliseconds(500));
  EXPECT_EQ(n.told(0), (texts{silent, "connect_deadline: no answer"}));
  n->go_on(1);
  n->dial(data, 0, 1, milliseconds(150));
  n.run(milliseconds(500));
  EXPECT_EQ(n.told(0), (texts{silent, "connect_deadline: no answer", "up 1"}));
}

TEST(lines, a_daemon_that_continues_in_time_keeps_its_connections) {
  net n(2);
  n.connect(control, 0, 1);
  n->stop(1);
  n.run(milliseconds(4900));
  n->go_on(1);
  n.run(milliseconds(50));
  n->stop(1);  // the silence begins anew
  n.run(milliseconds(4900));
  n->go_on(1);
  n.run(seconds(10));
  EXPECT_TRUE(n.log.empty());
}

TEST(lines, a_side_that_receives_nothing_drops_the_connection_and_the_other_side_sees_it_close) {
  net n(2);
  n.connect(control, 0, 1);
  n.connect(data, 0, 1);
  n->cut(data, 0, 1);
  EXPECT_TRUE(n->cut_now(data, 0, 1));
  EXPECT_FALSE(n->cut_now(data, 1, 0));
  EXPECT_FALSE(n->cut_now(control, 0, 1));
  n.run(seconds(5) + most);
  EXPECT_EQ(n.told(1), texts{silent});
  EXPECT_EQ(n.told(0), texts{closed});
  EXPECT_TRUE(n->up(control, 0, 1));
  n->dial(data, 0, 1, milliseconds(150));
  n.run(milliseconds(300));
  EXPECT_FALSE(n->up(data, 0, 1)) << "a connection needs both ways";
  n->mend(data, 0, 1);
  n.connect(data, 0, 1);
}

TEST(lines, each_side_drops_a_connection_that_is_cut_both_ways) {
  net n(2);
  n.connect(control, 0, 1);
  n->cut(control, 0, 1);
  n->cut(control, 1, 0);
  n.run(seconds(11));
  EXPECT_EQ(n.told(0), texts{silent});
  EXPECT_EQ(n.told(1), texts{silent});
}

TEST(lines, a_cut_holds_messages_until_it_is_mended) {
  net n(2);
  n.connect(control, 0, 1);
  n->cut(control, 0, 1);
  for (int i = 0; i < 5; ++i) n.send(0, 1, i);
  n.send(1, 0, 10);
  n.run(seconds(4));
  EXPECT_EQ(n.arrived, std::vector<int>{10}) << "the other way is not cut";
  n->mend(control, 0, 1);
  n.send(0, 1, 5);
  n.run(seconds(10));
  EXPECT_EQ(n.arrived, (std::vector<int>{10, 0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(n.log.empty());
}

TEST(lines, messages_held_by_a_cut_are_lost_with_the_connection) {
  net n(2);
  n.connect(control, 0, 1);
  n->cut(control, 0, 1);
  n.send(0, 1, 1);
  n.run(seconds(6));
  n->mend(control, 0, 1);
  n.connect(control, 0, 1);
  n.run(seconds(1));
  EXPECT_TRUE(n.arrived.empty());
  EXPECT_EQ(n->lost(), 1u);
}

TEST(lines, a_second_cut_begins_its_silence_anew) {
  net n(2);
  n.connect(control, 0, 1);
  n->cut(control, 0, 1);
  n.run(seconds(4));
  n->mend(control, 0, 1);
  n->cut(control, 0, 1);
  n.run(seconds(4));
  EXPECT_TRUE(n.log.empty());
  n.run(seconds(2));
  EXPECT_EQ(n.told(1), texts{silent});
}

// Kills, losses, stops, cuts and dials at random.
std::vector<happening> storm(std::uint64_t seed) {
  constexpr std::uint32_t nodes = 5;
  net n(nodes, seed);
  random r(seed);
  std::array<std::uint64_t, nodes> lives{1, 1, 1, 1, 1};
  const auto any = [&] { return static_cast<std::uint32_t>(r.below(nodes)); };
  for (int i = 0; i < 200; ++i) {
    const auto a = any(), b = (a + 1 + static_cast<std::uint32_t>(r.below(nodes - 1))) % nodes;
    const auto p = r.chance(0.5) ? control : data;
    switch (r.below(6)) {
      case 0:
        n->close(a, r.chance(0.5));
        n.run(milliseconds(static_cast<std::int64_t>(r.below(2000))));
        n.open(a, ++lives[a]);
        break;
      case 1: n->stop(a); break;
      case 2: n->go_on(a); break;
      case 3: n->cut(p, a, b); break;
      case 4: n->mend(p, a, b); break;
      default: n.send(a, b, i); break;
    }
    n->dial(p, b, a, seconds(2));
    n.run(milliseconds(static_cast<std::int64_t>(r.below(1500))));
  }
  for (std::uint32_t a = 0; a < nodes; ++a) {
    n->go_on(a);
    for (std::uint32_t b = 0; b < nodes; ++b)
      for (auto p : {control, data})
        if (a != b) n->mend(p, a, b);
  }
  n.run(seconds(20));
  for (std::uint32_t a = 0; a < nodes; ++a)
    for (std::uint32_t b = 0; b < a; ++b)
      for (auto p : {control, data}) EXPECT_EQ(n->session(p, a, b), n->session(p, b, a)) << a << " " << b << ", seed " << seed;
  return n.log;
}

TEST(lines, both_sides_agree_after_any_faults_and_equal_seeds_give_equal_runs) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto log = storm(seed);
    EXPECT_GT(log.size(), 20u);
    EXPECT_EQ(log, storm(seed)) << "seed " << seed;
  }
}

TEST(lines, all_of_many_nodes_may_be_connected_with_each_other) {
  constexpr std::uint32_t nodes = 100;
  net n(nodes);
  for (std::uint32_t a = 0; a < nodes; ++a)
    for (std::uint32_t b = 0; b < a; ++b) n->dial(data, a, b, seconds(5));
  n.run(seconds(2));
  EXPECT_EQ(n.log.size(), nodes * (nodes - 1));
  for (std::uint32_t a = 0; a < nodes; ++a)
    for (std::uint32_t b = 0; b < nodes; ++b) EXPECT_EQ(n->up(data, a, b), a != b);
}

}  // namespace
}  // namespace troupe::sim
