// The cluster controller and a member while one plan of a job replaces another, without a cluster:
// the test sets the time and sends the messages of the other nodes.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_moves : public testing::Test {
 protected:
  controller_moves() {
    for (const char* n : {"n1", "n2", "n3"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    for (const char* n : {"n1", "n2", "n3"}) h_->on(n, join{"127.0.0.1:2", "same", protocol, abi_version, 1}, now_, out_);
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_text>(&o)) id_ = c->job;
    h_->on_checked(id_, plan({"n1", "n2"}), now_, out_);
    for (const char* n : {"n1", "n2"}) h_->on(n, prepared{id_, {}}, now_, out_);
    out_.clear();
  }
  static checked plan(std::vector<std::string> nodes) {
    checked c;
    c.name = "tiny";
    c.plan_hash = "h";
    c.nodes = std::move(nodes);
    return c;
  }
  void wish(const command& c) { (void)h_->tell(0, c, now_, out_); }
  void wish_move() { wish({move_command{"fc6", "n3"}}); }
  void found(std::vector<std::string> nodes) {
    h_->on_plan_found({id_, {}, {}, plan(std::move(nodes)), {"bsp"}, wished_generation()}, now_, out_);
  }
  std::uint32_t wished_generation() const {
    std::uint32_t plan_generation = 0;
    for (const auto& o : out_)
      if (const auto* c = std::get_if<check_move>(&o)) plan_generation = c->plan_generation;
    return plan_generation;
  }
  void ready(const std::vector<std::string>& nodes) {
    for (const auto& n : nodes) h_->on(n, revised{id_, plan_generation(), {}}, now_, out_);
  }
  std::uint32_t plan_generation() { return sent<revise>().back().second.plan_generation; }
  template <class M>
  std::vector<std::pair<std::string, M>> sent() {
    return sent_in<M>(out_);
  }
  std::vector<std::string> sent_to_job() {
    std::vector<std::string> v;
    for (const auto& o : out_)
      if (const auto* t = std::get_if<tell_job>(&o)) v.push_back(name_of(t->what));
    return v;
  }
  template <class O>
  std::size_t ordered() const {
    return ordered_in<O>(out_).size();
  }
  std::string last_said() {
    const auto all = sent<said>();
    return all.empty() ? "" : all.back().second.kind + ": " + all.back().second.text;
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
  std::uint32_t id_ = 0;
};

TEST_F(controller_moves, a_node_is_shown_as_drained_once_the_plan_without_it_runs) {
  const auto note_of_n2 = [&] {
    repl_view v;
    h_->fill(v, now_);
    return v.nodes.at(1).note;
  };
  const auto swap_to = [&](const std::vector<std::string>& nodes, amendments changes) {
    h_->on_plan_found({id_, {}, std::move(changes), plan(nodes), {"bsp"}, wished_generation()}, now_, out_);
    ready(nodes);
    h_->on_handover(id_, 120, now_, out_);
    const auto swaps = sent<swap>();
    for (const auto& [node, s] : swaps) h_->on(node, swapped{id_, s.plan_generation, 0, {}}, now_, out_);
  };
  wish({drain_command{"n2"}});
  EXPECT_EQ(note_of_n2(), "") << "n2 still hosts its roles";
  amendments drained;
  drained.without = {"n2"};
  swap_to({"n1"}, drained);
  EXPECT_EQ(note_of_n2(), "drained: job 1 does not use it until `add-node n2`");
  out_.clear();
  wish({add_node_command{"n2"}});
  swap_to({"n1", "n2"}, {});
  EXPECT_EQ(note_of_n2(), "");
}

TEST_F(controller_moves, a_move_prepares_all_nodes_then_pauses_swaps_and_continues_training) {
  wish_move();
  EXPECT_EQ(ordered<check_move>(), 1u);
  found({"n1", "n3"});
  EXPECT_EQ(sent<revise>().size(), 2u) << "the new plan does not use n2";
  EXPECT_TRUE(sent_to_job().empty()) << "training continues";
  ready({"n1"});
  EXPECT_TRUE(sent_to_job().empty());
  ready({"n3"});
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"handover"}));
  wish({checkpoint_command{}});
  EXPECT_EQ(sent_to_job().size(), 1u) << "deferred until the swap is over";
  h_->on_handover(id_, 120, now_, out_);
  EXPECT_EQ(sent<swap>().size(), 3u);
  h_->on("n1", swapped{id_, 1, 0, {}}, now_, out_);
  h_->on("n2", swapped{id_, 1, 500, {}}, now_, out_);
  EXPECT_EQ(ordered<begin_job>(), 0u);
  now_ += 35ms;
  h_->on("n3", swapped{id_, 1, 0, {}}, now_, out_);
  EXPECT_EQ(ordered<begin_job>(), 1u);
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"handover", "checkpoint"}));
  EXPECT_EQ(last_said(), "moved: moved fc6 to n3");
  EXPECT_EQ(sent<said>().back().second.step, 120u);
  EXPECT_NEAR(sent<said>().back().second.values.at(0).second, 35, 0.1);
  out_.clear();
  h_->on_peer_down("n2", "gone", now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u) << "the job no longer uses n2";
  h_->on_peer_down("n3", "gone", now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 1u) << "the job uses n3";
}

TEST_F(controller_moves, a_move_refused_before_training_pauses_changes_nothing) {
  wish({move_command{"fc6", "n9"}});
  h_->on_plan_found({id_, "no node 'n9'", {}, {}, {}, wished_generation()}, now_, out_);
  EXPECT_EQ(last_said(), "refused: no node 'n9'");
  wish_move();
  wish_move();
  EXPECT_EQ(last_said(), "refused: another move is under way: moved fc6 to n3");
  found({"n1", "n2", "n3"});
  h_->on("n3", revised{id_, plan_generation(), "no such data"}, now_, out_);
  EXPECT_EQ(last_said(), "refused: node n3: no such data");
  EXPECT_EQ(sent<forget>().size(), 3u);
  wish_move();
  found({"n1", "n2", "n3"});
  h_->on_peer_down("n3", "gone", now_, out_);
  EXPECT_EQ(last_said(), "refused: node n3 is lost: gone");
  wish_move();
  EXPECT_EQ(last_said(), "refused: no daemon answers as n3");
  wish({move_command{"fc6", "n2"}});
  found({"n1", "n2"});
  now_ += 61s;
  h_->on_tick(now_, out_);
  EXPECT_EQ(last_said(), "refused: n1 did not get ready for the new plan within 60 s");
  EXPECT_TRUE(sent_to_job().empty());
  wish({move_command{"fc6", "n2"}});
  found({"n1", "n2"});
  ready({"n1", "n2"});
  wish({pause_command{}});
  h_->on_event({id_, {9, handover_refused_event{"the mode has changed meanwhile"}}}, now_, out_);
  EXPECT_EQ(sent_to_job(), (std::vector<std::string>{"handover", "pause"}));
  EXPECT_EQ(sent<end_job>().size(), 0u);
}

TEST_F(controller_moves, packets_are_balanced_by_the_coordinator_roles_proposal_unless_a_plan_is_next_or_the_job_stops) {
  const auto propose = [&] { h_->on_event({id_, {3, balance_event{{2, 1}}}}, now_, out_); };
  propose();
  ASSERT_EQ(ordered_in<check_move>(out_).size(), 1u);
  const auto* b = ordered_in<check_move>(out_)[0].wish.as<balance_command>();
  ASSERT_TRUE(b);
  EXPECT_EQ(b->packets, (std::vector<std::uint32_t>{2, 1}));
  propose();
  EXPECT_EQ(ordered_in<check_move>(out_).size(), 1u) << "a plan is next";
  h_->on_plan_found({id_, "no such plan", {}, {}, {}, wished_generation()}, now_, out_);
  wish({stop_command{}});
  propose();
  EXPECT_EQ(ordered_in<check_move>(out_).size(), 1u) << "the job stops";
}

TEST_F(controller_moves, a_node_failure_while_training_is_paused_ends_the_job_naming_the_node) {
  wish_move();
  found({"n1", "n3"});
  ready({"n1", "n3"});
  h_->on_handover(id_, 7, now_, out_);
  h_->on_peer_down("n2", "gone", now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 0u) << "the new plan does not use n2";
  h_->on_peer_down("n3", "gone", now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 1u);
  h_->on("n1", ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n3 is lost: gone");
}

TEST_F(controller_moves, an_unanswered_swap_ends_the_job_after_60_s) {
  wish_move();
  found({"n1", "n3"});
  ready({"n1", "n3"});
  h_->on_handover(id_, 7, now_, out_);
  for (const char* n : {"n1", "n2"}) h_->on(n, swapped{id_, 1, 0, {}}, now_, out_);
  now_ += 61s;
  h_->on_tick(now_, out_);
  for (const char* n : {"n1", "n2", "n3"}) h_->on(n, ended{id_, 0}, now_, out_);
  EXPECT_EQ(last_said(), "error: node n3 did not switch to the new plan within 60 s");
}

TEST_F(controller_moves, a_job_that_ends_during_a_move_ends_on_all_nodes) {
  wish_move();
  found({"n1", "n3"});
  ready({"n1", "n3"});
  h_->on_event({id_, {9, done_event{}}}, now_, out_);
  EXPECT_EQ(sent<end_job>().size(), 3u) << "n3 has prepared the new plan";
}

// --- a member

class member_moves : public testing::Test {
 protected:
  template <class O>
  const O* last() const {
    for (auto at = out_.rbegin(); at != out_.rend(); ++at) {
      if constexpr (std::is_same_v<O, swapped> || std::is_same_v<O, revised> || std::is_same_v<O, ended>) {
        if (const auto* p = std::get_if<to_peer>(&*at))
          if (const auto* m = std::get_if<O>(&p->what)) return m;
      } else if (const auto* o = std::get_if<O>(&*at)) {
        return o;
      }
    }
    return nullptr;
  }
  void host(std::uint32_t job) {
    m_.on(joined{}, now_, out_);
    m_.on(prepare{job, {}, "h", {{"n2", "a", 1}}}, now_, out_);
    m_.on_made(job, {}, out_);
  }
  revise plan(std::uint32_t job, std::uint32_t plan_generation) {
    return {{job, {}, "h2", {{"n2", "a", 1}}}, plan_generation, {}, {}, {}, {}};
  }

  member m_{"n2", "n1"};
  member_orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(member_moves, a_member_prepares_the_next_plan_while_hosting_and_swaps_on_request) {
  host(5);
  m_.on(plan(5, 1), now_, out_);
  ASSERT_TRUE(last<make_plan_order>());
  m_.on_revised(5, 1, {}, out_);
  ASSERT_TRUE(last<revised>());
  EXPECT_EQ(last<revised>()->error, "");
  m_.on(swap{5, 1, 40}, now_, out_);
  ASSERT_TRUE(last<swap_roles>());
  m_.on(end_job{5}, now_, out_);
  EXPECT_FALSE(last<end_roles>()) << "deferred until the swap is done";
  m_.on_swapped(5, 1, {}, out_);
  ASSERT_TRUE(last<end_roles>());
  m_.on_gone(5, 77, now_, out_);
  EXPECT_EQ(last<ended>()->tcp_bytes, 77u);
  EXPECT_TRUE(m_.idle());
}

TEST_F(member_moves, a_member_leaves_a_job_that_does_not_use_it_and_joins_it_again) {
  host(5);
  m_.on(swap{5, 1, 40}, now_, out_);
  ASSERT_TRUE(last<end_roles>());
  m_.on_gone(5, 66, now_, out_);
  EXPECT_EQ(last<swapped>()->tcp_bytes, 66u);
  EXPECT_TRUE(m_.idle());
  m_.on(plan(5, 2), now_, out_);
  m_.on_revised(5, 2, {}, out_);
  m_.on(swap{5, 2, 50}, now_, out_);
  m_.on_swapped(5, 2, {}, out_);
  EXPECT_EQ(last<swapped>()->plan_generation, 2u);
  EXPECT_TRUE(m_.hosts());
}

TEST_F(member_moves, a_lost_coordinator_connection_ends_both_plans) {
  host(5);
  m_.on(plan(5, 1), now_, out_);
  m_.on_coordinator_down("gone", out_);
  EXPECT_TRUE(last<forget_plan>());
  EXPECT_TRUE(last<end_roles>());
  m_.on_gone(5, 0, now_, out_);
  EXPECT_TRUE(m_.idle());
}

}  // namespace
}  // namespace troupe::control
