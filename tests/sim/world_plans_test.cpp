// Plans on nodes with a daemon: the fence between plans, sessions, and processes that die, stop and
// continue.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "runtime/sim/world.hpp"

namespace troupe::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t job = 7;

// What a role is told to do by its daemon, as user::type.
enum : std::uint32_t { send = 0, fails = 1, computes = 2, adds = 3 };

struct arrival {
  std::uint32_t node = 0, role = 0, from = 0, incarnation = 0;
  std::uint64_t number = 0;  // of the message; of a task's end: its token
  bool ended = false;        // a task
  time_point at{};
  friend bool operator==(const arrival&, const arrival&) = default;
};

network_model star() {
  network_model n;
  n.fabric = fabric_kind::star;
  n.bytes_per_second = 0;
  n.latency = microseconds(50);  // 100 us from node to node
  return n;
}

world_config config_of(network_model n, std::uint64_t seed = 1) {
  world_config c;
  c.seed = seed;
  c.network = n;
  return c;
}

class plant {
 public:
  explicit plant(world_config c = config_of(star())) : when_(with_nodes(std::move(c))) {
    when_.on_acted = [this](std::uint32_t node, std::uint32_t plan, role_id who, const envelope& e, bool old) {
      acted.push_back({node, plan, index_of(who), e.h.job, e.h.incarnation, old});
    };
  }
  world* operator->() { return &when_; }

  std::uint32_t know(std::uint32_t of, std::uint32_t generation, std::vector<std::uint32_t> node_of) {
    const auto plan = when_.know(of, generation, node_of);
    plans_[plan] = std::move(node_of);
    return plan;
  }
  // Spawns all roles of the plan on this node.
  void spawn(std::uint32_t node, std::uint32_t plan) {
    std::vector<world::seat> seats;
    for (std::uint32_t i = 0; i < plans_[plan].size(); ++i)
      if (plans_[plan][i] == node) seats.push_back({role_id{i}, std::make_unique<talker>(*this, node, i), 0});
    when_.spawn(node, plan, std::move(seats));
  }
  // Job 7, one role on each node, spawned everywhere.
  std::uint32_t one_role_each(std::uint32_t nodes, std::uint32_t generation) {
    std::vector<std::uint32_t> all(nodes);
    for (std::uint32_t n = 0; n < nodes; ++n) all[n] = n;
    const auto plan = know(job, generation, all);
    for (std::uint32_t n = 0; n < nodes; ++n) spawn(n, plan);
    return plan;
  }
  void tell(std::uint32_t node, std::uint32_t role, std::uint32_t what, std::uint64_t number, std::uint32_t to = 0,
            std::uint32_t of = job) {
    envelope e;
    e.h.dst = role_id{role};
    e.h.step = number;
    e.body = user{what, {}, {}, to};
    when_.deliver(node, of, std::move(e));
  }
  // The role `from` of job 7 on node `from` sends a number to role `to`.
  void talk(std::uint32_t from, std::uint32_t to, std::uint64_t number) { tell(from, from, send, number, to); }
  void run(duration time) {
    bool over = false;
    when_.in(time, [&] { over = true; });
    while (!over) when_.step();
  }
  void run() { EXPECT_TRUE(when_.run(1'000'000)); }
  std::vector<std::uint64_t> numbers_at(std::uint32_t node) const {
    std::vector<std::uint64_t> all;
    for (const auto& a : got)
      if (a.node == node) all.push_back(a.number);
    return all;
  }
  fault_counts counts() const { return when_.counts(); }

  struct act {
    std::uint32_t node = 0, plan = 0, who = 0, of = 0, incarnation = 0;
    bool old = false;
    friend bool operator==(const act&, const act&) = default;
  };
  std::vector<arrival> got;
  std::vector<act> acted;

 private:
  class talker final : public role {
   public:
    talker(plant& p, std::uint32_t node, std::uint32_t self) : p_(p), node_(node), self_(self) {}
    void on(const envelope& e, time_point now, effects& out) override {
      if (const auto* f = std::get_if<finished>(&e.body)) {
        p_.got.push_back({node_, self_, self_, e.h.incarnation, f->token, true, now});
        return;
      }
      const auto* u = std::get_if<user>(&e.body);
      if (!u) return;
      if (e.h.src != no_role) {
        p_.got.push_back({node_, self_, index_of(e.h.src), e.h.incarnation, e.h.step, false, now});
        return;
      }
      switch (u->type) {
        case fails: out.stop(); throw std::runtime_error("told to fail");
        case computes: out.run({}, {1e7, 0}, e.h.step); return;
        case adds:
          out.shared({shared_effect::kind_of::add, 0, std::make_shared<tensor>(tensor::declare({100'000}, dtype::f32)), e.h.step});
          return;
        default: break;
      }
      envelope say;
      say.h.src = role_id{self_};
      say.h.dst = role_id{static_cast<std::uint32_t>(u->number)};
      say.h.step = e.h.step;
      say.body = user{};
      out.send(std::move(say));
    }

   private:
    plant& p_;
    std::uint32_t node_, self_;
  };
  static world_config with_nodes(world_config c) {
    c.nodes = 4;
    return c;
  }

  world when_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> plans_;
};

using numbers = std::vector<std::uint64_t>;

TEST(world_plans, messages_have_job_and_generation_and_roles_do_not_see_the_time_before) {
  plant p;
  p.run(milliseconds(3));
  const auto plan = p.one_role_each(2, 5);
  p.run(milliseconds(1));
  p.talk(0, 1, 42);
  p.run();
  ASSERT_EQ(p.got.size(), 1u);
  EXPECT_EQ(p.got[0], (arrival{1, 1, 0, 5, 42, false, milliseconds(1) + microseconds(100)}));
  EXPECT_EQ(p.acted, (std::vector<plant::act>{{0, plan, 0, job, 5, false}, {1, plan, 1, job, 5, false}}));
  EXPECT_EQ(p->roles_of(1).at(0).messages, 1u);
  EXPECT_TRUE(p->hosts(1));
  EXPECT_FALSE(p->hosts(2));
}

TEST(world_plans, a_plan_is_known_once) {
  plant p;
  const auto first = p.know(job, 1, {0, 1});
  EXPECT_EQ(p.know(job, 1, {0, 1}), first);
  EXPECT_NE(p.know(job, 2, {0, 1}), first);
  EXPECT_NE(p.know(job + 1, 1, {0, 1}), first);
}

TEST(world_plans, spawn_refuses_a_job_twice_and_roles_of_other_nodes) {
  plant p;
  const auto plan = p.one_role_each(2, 1);
  EXPECT_THROW(p.spawn(0, plan), std::invalid_argument);
  EXPECT_THROW(p.spawn(0, p.know(job, 2, {0})), std::invalid_argument);
  EXPECT_NO_THROW(p.spawn(0, p.know(job + 1, 1, {0})));
  EXPECT_THROW(p->spawn(0, 77, {}), std::invalid_argument);
  std::vector<world::seat> wrong(1);
  wrong[0].id = role_id{0};
  EXPECT_THROW(p->spawn(2, p.know(job, 3, {2}), std::move(wrong)), std::invalid_argument) << "a null role";
  p->die(3);
  EXPECT_THROW(p->spawn(3, plan, {}), std::invalid_argument);
  p->revive(3);
  EXPECT_NO_THROW(p->spawn(3, plan, {}));
}

// Node 0 sends in plan 1 while node 1 goes on to plan 2.
plant::act message_of_an_earlier_plan(plant& p) {
  p.one_role_each(2, 1);
  const auto next = p.know(job, 2, {0, 1});
  p.talk(0, 1, 1);
  p.run(microseconds(50));
  p->end(1, job);
  p.spawn(1, next);
  p.run();
  return {1, next, 1, job, 1, true};
}

TEST(world_plans, a_message_of_an_earlier_plan_is_dropped) {
  plant p;
  const auto dropped = message_of_an_earlier_plan(p);
  EXPECT_EQ(p.numbers_at(1), numbers{});
  EXPECT_EQ(p.counts().stale, 1u);
  EXPECT_EQ(p.acted.back(), dropped);
}

TEST(world_plans, without_the_fence_a_message_of_an_earlier_plan_is_delivered) {
  auto c = config_of(star());
  c.no_fence = true;
  plant p(c);
  message_of_an_earlier_plan(p);
  EXPECT_EQ(p.numbers_at(1), numbers{1});
  EXPECT_EQ(p.counts().stale, 0u);
  EXPECT_FALSE(p.acted.back().old);
}

TEST(world_plans, a_message_of_a_later_plan_is_dropped) {
  plant p;
  p.one_role_each(2, 1);
  p->end(0, job);
  p.spawn(0, p.know(job, 2, {0, 1}));
  p.talk(0, 1, 1);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{});
  EXPECT_EQ(p.counts().stale, 1u);
}

TEST(world_plans, a_message_to_a_node_without_the_job_is_dropped) {
  plant p;
  p.one_role_each(2, 1);
  p.spawn(1, p.know(job + 1, 1, {0, 1}));
  p->end(1, job);
  p.talk(0, 1, 1);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{});
  EXPECT_EQ(p.counts().stale, 1u);
  EXPECT_EQ(p.acted.size(), 1u) << "the fence of another job's plan has not dropped it";
}

TEST(world_plans, jobs_on_the_same_nodes_are_apart) {
  plant p;
  p.one_role_each(2, 1);
  const auto other = p.know(job + 1, 3, {1, 0});  // role 0 on node 1
  p.spawn(0, other);
  p.spawn(1, other);
  p.talk(0, 1, 1);
  p.tell(1, 0, send, 2, 1, job + 1);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{1});
  EXPECT_EQ(p.numbers_at(0), numbers{2});
  p->end(0, job);
  EXPECT_EQ(p->roles_of(0).size(), 1u);
  EXPECT_EQ(p->roles_of(0)[0].plan, other);
}

TEST(world_plans, messages_and_tasks_within_a_node_end_with_the_spawn) {
  plant p;
  const auto plan = p.know(job, 1, {0, 0});
  p.spawn(0, plan);
  p.tell(0, 0, send, 1, 1);
  p.tell(0, 0, computes, 2);
  p.tell(0, 0, adds, 3);
  p.run(duration(100));
  p->end(0, job);
  p.spawn(0, plan);
  p.run();
  EXPECT_EQ(p.numbers_at(0), numbers{});
  EXPECT_GE(p.counts().lost_in_crash, 3u);
  p.tell(0, 0, send, 4, 1);
  p.tell(0, 0, computes, 5);
  p.tell(0, 0, adds, 6);
  p.run();
  EXPECT_EQ(p.numbers_at(0).size(), 3u);
}

TEST(world_plans, roles_of_add_and_roles_of_plans_share_a_node) {
  plant p;
  class silent final : public role {
   public:
    explicit silent(int& n) : n_(n) {}
    void on(const envelope& e, time_point, effects&) override { n_ += e.h.job == 0; }

   private:
    int& n_;
  };
  int heard = 0;
  p->add(role_id{0}, 0, std::make_unique<silent>(heard));
  p.one_role_each(2, 1);
  envelope e;
  e.h.dst = role_id{0};
  e.body = start{};
  p->inject(e);
  p.talk(1, 0, 9);
  p.run();
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(p.numbers_at(0), numbers{9});
}

// --- sessions

TEST(world_plans, a_message_without_a_session_is_lost_and_one_of_a_remade_session_arrives) {
  plant p;
  p.one_role_each(2, 1);
  std::uint64_t now = 0;
  p->session = [&](std::uint32_t, std::uint32_t) { return now; };
  p.talk(0, 1, 1);
  p.run();
  EXPECT_EQ(p.counts().lost_with_session, 1u);
  now = 1;
  p.talk(0, 1, 2);
  p.run(microseconds(50));
  now = 2;  // while message 2 is on its way
  p.talk(0, 1, 3);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{3});
  EXPECT_EQ(p.counts().lost_with_session, 2u);
}

TEST(world_plans, messages_wait_until_the_other_side_of_a_new_session_is_up) {
  auto c = config_of(star());
  c.connects_within = milliseconds(2);
  plant p(c);
  p.one_role_each(2, 1);
  std::map<std::uint32_t, std::uint64_t> sessions;
  p->session = [&](std::uint32_t at, std::uint32_t) { return sessions[at]; };
  sessions[0] = 1;
  p.talk(0, 1, 1);
  p->in(milliseconds(2), [&] { sessions[1] = 1; });
  p->in(milliseconds(2) - microseconds(10), [&] { p.talk(0, 1, 2); });
  p->in(milliseconds(2) + microseconds(10), [&] { p.talk(0, 1, 3); });
  p.run();
  EXPECT_EQ(p.numbers_at(1), (numbers{1, 2, 3}));
}

TEST(world_plans, a_session_over_an_unreliable_wire_delivers_a_prefix_in_order) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto c = config_of(star(), seed);
    c.faults.list.emplace_back();
    c.faults.list[0].kind = fault_kind::drop;
    c.faults.list[0].probability = 0.3;
    plant p(c);
    p.one_role_each(2, 1);
    std::uint64_t now = 1;
    p->session = [&](std::uint32_t, std::uint32_t) { return now; };
    for (std::uint64_t i = 0; i < 40; ++i) p.talk(0, 1, i);
    p.run(milliseconds(2));
    const auto first = p.numbers_at(1);
    ++now;
    for (std::uint64_t i = 100; i < 140; ++i) p.talk(0, 1, i);
    p.run();
    numbers expected;
    for (std::uint64_t i = 0; i < first.size(); ++i) expected.push_back(i);
    for (std::uint64_t i = 100; i < 140; ++i) expected.push_back(i);
    EXPECT_EQ(p.numbers_at(1), expected) << "seed " << seed;
    EXPECT_LT(first.size(), 40u) << "seed " << seed;
    EXPECT_GE(p.counts().lost_with_session, 40 - first.size()) << "seed " << seed;
  }
}

TEST(world_plans, a_cut_holds_messages_until_it_is_mended_or_their_session_ends) {
  plant p;
  p.one_role_each(2, 1);
  std::uint64_t now = 1;
  p->session = [&](std::uint32_t, std::uint32_t) { return now; };
  p.talk(0, 1, 1);
  p.run(microseconds(50));
  p->cut(0, 1);  // message 1 is on the wire
  p.talk(0, 1, 2);
  p.talk(0, 1, 3);
  p.talk(1, 0, 10);
  p.run(milliseconds(5));
  EXPECT_EQ(p.numbers_at(1), numbers{1});
  EXPECT_EQ(p.numbers_at(0), numbers{10});
  p->mend(0, 1);
  p.talk(0, 1, 4);
  p.run();
  EXPECT_EQ(p.numbers_at(1), (numbers{1, 2, 3, 4}));
  p->cut(0, 1);
  p.talk(0, 1, 5);
  p.run();
  now = 2;
  p->mend(0, 1);
  p.talk(0, 1, 6);
  p.run();
  EXPECT_EQ(p.numbers_at(1), (numbers{1, 2, 3, 4, 6}));
  EXPECT_EQ(p.counts().lost_with_session, 1u);
}

// --- processes

TEST(world_plans, a_stopped_node_handles_what_has_arrived_after_it_continues_in_order) {
  plant p;
  p.one_role_each(3, 1);
  p.tell(1, 1, computes, 100);
  p.run(duration(1));
  p->stop(1);
  for (std::uint64_t i = 1; i <= 5; ++i)
    p->in(milliseconds(static_cast<std::int64_t>(i)), [&p, i] { p.talk(i % 2 == 0 ? 0 : 2, 1, i); });
  p.run(milliseconds(10));
  EXPECT_EQ(p.numbers_at(1), numbers{});
  p.talk(0, 1, 6);
  p.run(microseconds(100) - duration(1));  // message 6 arrives when the node continues, and goes behind
  p->in(duration(1), [&] { p->go_on(1); });
  p.run();
  EXPECT_EQ(p.numbers_at(1), (numbers{100, 1, 2, 3, 4, 5, 6}));
}

TEST(world_plans, a_node_that_is_stopped_again_keeps_the_order) {
  plant p;
  p.one_role_each(2, 1);
  p->stop(1);
  for (std::uint64_t i = 1; i <= 3; ++i) p.talk(0, 1, i);
  p.run(milliseconds(1));
  p->go_on(1);
  p->stop(1);
  p.talk(0, 1, 4);
  p.run(milliseconds(1));
  EXPECT_EQ(p.numbers_at(1), numbers{});
  p->go_on(1);
  p.talk(0, 1, 5);
  p.run();
  EXPECT_EQ(p.numbers_at(1), (numbers{1, 2, 3, 4, 5}));
}

TEST(world_plans, what_a_stopped_node_has_received_outlives_the_session_but_not_the_plan) {
  plant p;
  const auto plan = p.one_role_each(2, 1);
  std::uint64_t now = 1;
  p->session = [&](std::uint32_t, std::uint32_t) { return now; };
  p->stop(1);
  p.talk(0, 1, 1);
  p.run(milliseconds(1));
  now = 0;
  p->go_on(1);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{1});
  now = 2;
  p->stop(1);
  p.talk(0, 1, 2);
  p.run(milliseconds(1));
  p->end(1, job);
  p.spawn(1, p.know(job, 2, {0, 1}));
  p->go_on(1);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{1});
  EXPECT_EQ(p.counts().stale, 1u);
  EXPECT_NE(p->roles_of(1).at(0).plan, plan);
}

TEST(world_plans, a_dead_node_loses_its_roles_and_messages_and_nobody_is_told) {
  plant p;
  p.one_role_each(3, 1);
  p.tell(1, 1, computes, 100);
  p.tell(1, 1, adds, 101);
  p.talk(0, 1, 1);
  p.talk(1, 2, 2);
  p.talk(0, 2, 3);
  p.run(microseconds(50));
  p->stop(1);
  p->die(1);
  EXPECT_FALSE(p->up(1));
  EXPECT_FALSE(p->hosts(1));
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{});
  EXPECT_EQ(p.numbers_at(2), numbers{3});
  EXPECT_EQ(p.counts().crashed, 1u);
  p->revive(1);
  EXPECT_TRUE(p->up(1));
  EXPECT_FALSE(p->hosts(1));
  p->end(0, job);
  p->end(2, job);
  p.one_role_each(3, 2);
  p.talk(0, 1, 4);
  p.talk(1, 2, 5);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{4});
  EXPECT_EQ(p.numbers_at(2), (numbers{3, 5}));
}

TEST(world_plans, a_role_that_throws_handles_nothing_more) {
  plant p;
  const auto plan = p.one_role_each(2, 1);
  std::vector<std::string> failures;
  p->on_role_failure = [&](std::uint32_t node, std::uint32_t of, role_id who, std::uint64_t step, const std::string& what) {
    EXPECT_EQ(of, plan);
    failures.push_back(std::to_string(node) + " " + std::to_string(index_of(who)) + " " + std::to_string(step) + " " + what);
  };
  p.tell(1, 1, fails, 12);
  p.talk(0, 1, 1);
  p.run();
  EXPECT_EQ(failures, std::vector<std::string>{"1 1 12 told to fail"});
  EXPECT_EQ(p.numbers_at(1), numbers{});
  EXPECT_TRUE(p->roles_of(1).at(0).failed);
  EXPECT_FALSE(p->roles_of(0).at(0).failed);
  p->end(1, job);
  p.spawn(1, plan);
  p.talk(0, 1, 2);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{2});
}

TEST(world_plans, without_a_handler_an_exception_leaves_step) {
  plant p;
  p.one_role_each(1, 1);
  p.tell(0, 0, fails, 1);
  EXPECT_THROW(p->run(100), std::runtime_error);
}

TEST(world_plans, a_node_may_die_or_end_a_job_while_its_role_acts) {
  plant p;
  p.one_role_each(3, 1);
  p->on_acted = [&](std::uint32_t node, std::uint32_t, role_id, const envelope&, bool) {
    if (node == 1) p->die(1);
    if (node == 2) p->end(2, job);
  };
  for (std::uint32_t to : {1u, 2u})
    for (std::uint64_t i = 0; i < 3; ++i) p.talk(0, to, i);
  p.run();
  EXPECT_EQ(p.numbers_at(1), numbers{0});
  EXPECT_EQ(p.numbers_at(2), numbers{0});
  EXPECT_FALSE(p->hosts(1));
  EXPECT_FALSE(p->hosts(2));
}

TEST(world_plans, calls_at_one_time_run_in_order_and_may_add_calls) {
  world w{world_config{}};
  std::vector<int> order;
  for (int i = 0; i < 3; ++i)
    w.at(milliseconds(1), [&, i] {
      order.push_back(i);
      w.in({}, [&, i] { order.push_back(10 + i); });
    });
  w.at(duration{}, [&] { order.push_back(-1); });
  EXPECT_TRUE(w.run(100));
  EXPECT_EQ(order, (std::vector<int>{-1, 0, 1, 2, 10, 11, 12}));
  EXPECT_EQ(w.events(), 7u);
}

TEST(process_agenda, calls_of_a_stopped_process_run_in_order_after_it_continues_and_die_with_it) {
  world w{world_config{}};
  std::vector<int> order;
  auto p = std::make_unique<process_agenda>(w);
  p->in(milliseconds(1), [&] { order.push_back(1); });
  p->in(milliseconds(2), [&] { order.push_back(2); });
  p->in(milliseconds(3), [&] { order.push_back(3); });
  w.at(milliseconds(1), [&] { p->stop(); });
  w.at(milliseconds(3), [&] {
    p->go_on();
    p->now_or_later([&] { order.push_back(4); });
  });
  w.at(milliseconds(4), [&] { p.reset(); });
  p->in(milliseconds(5), [&] { order.push_back(5); });
  EXPECT_TRUE(w.run(100));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

// Plans that follow each other on nodes that die, stop and lose sessions, on a network that makes
// every order possible.
std::tuple<std::uint64_t, std::uint64_t, std::vector<arrival>> storm(std::uint64_t seed) {
  plant p(config_of({}, seed));
  random r(seed);
  constexpr std::uint32_t nodes = 4;
  std::uint64_t sessions = 1;
  std::uint32_t generation = 1;
  p->session = [&](std::uint32_t at, std::uint32_t peer) { return at == 0 || peer == 0 ? sessions : 1; };
  p.one_role_each(nodes, generation);
  std::uint64_t number = 0;
  for (int i = 0; i < 400; ++i) {
    const auto a = static_cast<std::uint32_t>(r.below(nodes)), b = static_cast<std::uint32_t>(r.below(nodes));
    if (r.chance(0.03)) {
      p->die(a);
      p->revive(a);
      for (std::uint32_t n = 0; n < nodes; ++n) p->end(n, job);
      p.one_role_each(nodes, ++generation);
    }
    if (r.chance(0.05)) ++sessions;
    if (r.chance(0.1)) p->stop(a);
    if (r.chance(0.3)) p->go_on(a);
    if (r.chance(0.1)) p.tell(a, a, computes, ++number);
    if (a != b) p.talk(a, b, ++number);
    p.run(duration(static_cast<std::int64_t>(r.below(100'000))));
  }
  for (std::uint32_t n = 0; n < nodes; ++n) p->go_on(n);
  p.run();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> last;
  for (const auto& g : p.got) {
    if (g.ended) continue;
    auto& before = last[{g.from, g.node}];
    EXPECT_LT(before, g.number) << "from " << g.from << " to " << g.node << ", seed " << seed;
    before = g.number;
  }
  EXPECT_GT(p.got.size(), 100u);
  return {p->trace_hash(), p->events(), p.got};
}

TEST(world_plans, order_is_kept_under_any_faults_and_equal_seeds_give_equal_runs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(storm(seed), storm(seed)) << "seed " << seed;
}

}  // namespace
}  // namespace troupe::sim
