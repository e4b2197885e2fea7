// The cluster controller when its own daemon was suspended, when users name nodes that the job does
// not use, and what it says about several failures.
#include <gmock/gmock.h>

#include "runtime/cluster/controller/member.hpp"
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {
namespace {

class controller_lost_nodes : public controller_failures {
 protected:
  // Brings the change of the plan to a phase: 0 checking, 1 preparing, 2 draining, 3 swapping.
  void advance(const std::vector<std::string>& nodes, int phase) {
    amendments changes;
    changes.without = {"n4"};
    if (phase > 0) h_->on_plan_found({id_, {}, changes, plan(nodes), {"bsp"}, asked()->plan_generation, 0}, now_, out_);
    if (phase > 1) ready(nodes);
    if (phase > 2) h_->on_handover(id_, 44, now_, out_);
  }
  // This daemon makes no tick for 5 s; then the connections of these nodes end.
  void suspended(const std::vector<std::string>& nodes) {
    h_->on_tick(now_, out_);
    now_ += 5s;
    h_->on_tick(now_, out_);
    for (const auto& n : nodes) dies(n);
  }
  // The same daemon joins again, with the roles of this plan.
  void joins_with_roles(const std::string& n, std::uint64_t incarnation, std::uint32_t plan_generation) {
    h_->on(n, join{"127.0.0.1:2", "same", protocol, abi_version, incarnation, id_, plan_generation}, now_, out_);
  }
  void pass(std::chrono::milliseconds t) {
    now_ += t;
    h_->on_tick(now_, out_);
  }
  std::size_t recoveries() const {
    std::size_t n = 0;
    for (const auto& m : ordered_in<check_move>(out_)) n += m.back ? 1 : 0;
    return n;
  }
  std::vector<std::string> said_of(const std::string& kind) const {
    std::vector<std::string> all;
    for (const auto& [to, s] : sent<said>())
      if (s.kind == kind) all.push_back(s.text);
    return all;
  }
};

// --- this daemon was suspended

TEST_F(controller_lost_nodes, nodes_rejoin_after_a_suspension_during_each_phase_of_a_drain) {
  for (int phase = 0; phase < 3; ++phase) {
    SCOPED_TRACE(phase);
    out_.clear();
    begin({"n1", "n2", "n3", "n4"}, 1);
    const auto first = lives_ - 3;  // n1's incarnation
    (void)h_->tell(0, {drain_command{"n4"}}, now_, out_);
    advance({"n1", "n2", "n3"}, phase);
    (void)h_->tell(0, {checkpoint_command{}}, now_, out_);
    suspended({"n2", "n3", "n4"});
    EXPECT_EQ(said_of("refused"), (std::vector<std::string>{"n1 was suspended for 5 s, and nodes closed their connections"}));
    EXPECT_EQ(recoveries(), 0u) << "the nodes have their roles";
    joins_with_roles("n2", first + 1, 0);
    joins_with_roles("n3", first + 2, 0);
    pass(600ms);
    EXPECT_EQ(recoveries(), 0u) << "n4 has not joined again";
    joins_with_roles("n4", first + 3, 0);
    pass(10ms);
    ASSERT_EQ(recoveries(), 1u);
    EXPECT_TRUE(asked()->back->live);
    EXPECT_TRUE(asked()->back->silent.empty());
    EXPECT_TRUE(lost_nodes().empty());
    EXPECT_TRUE(asked()->so_far.without.empty()) << "the drain was refused";
    const std::vector<std::string> all{"n1", "n2", "n3", "n4"};
    found_live(all);
    ready(all);
    h_->on_handover(id_, 45, now_, out_);
    swap_all(all);
    EXPECT_EQ(last_said(),
              "recovered: n1 was suspended for 5 s, and nodes closed their connections; all nodes start their roles again");
    if (phase > 1) {
      EXPECT_EQ(sent_to_job().back(), "checkpoint") << "the command was held";
    }
  }
}

TEST_F(controller_lost_nodes, a_swap_that_a_suspension_breaks_is_followed_by_a_recovery_on_all_nodes) {
  begin({"n1", "n2", "n3"}, 1);
  (void)h_->tell(0, {drain_command{"n4"}}, now_, out_);
  advance({"n1", "n2", "n3"}, 3);
  suspended({"n2", "n3"});
  EXPECT_EQ(recoveries(), 0u);
  swap_all({"n1"});
  EXPECT_EQ(ordered<begin_job>(), 0u);
  EXPECT_EQ(recoveries(), 0u) << "the nodes may join again";
  joins("n2");
  joins("n3");
  pass(600ms);
  ASSERT_EQ(recoveries(), 1u);
  EXPECT_FALSE(asked()->back->live) << "the handover is on this node";
  EXPECT_TRUE(lost_nodes().empty());
}

TEST_F(controller_lost_nodes, a_suspension_during_a_recovery_is_part_of_that_recovery) {
  begin({"n1", "n2", "n3"}, 1);
  const auto first = lives_ - 3;
  dies("n3");
  found_live({"n1", "n2"});
  suspended({"n2"});
  EXPECT_EQ(recoveries(), 1u);
  joins_with_roles("n2", first + 1, 0);
  pass(600ms);
  ASSERT_EQ(recoveries(), 2u);
  EXPECT_EQ(lost_nodes(), (std::vector<std::string>{"n3"}));
  EXPECT_EQ(asked()->back->silent, (std::set<std::string>{"n3"}));
  found_live({"n1", "n2"});
  ready({"n1", "n2"});
  h_->on_handover(id_, 45, now_, out_);
  swap_all({"n1", "n2"});
  EXPECT_EQ(sent<end_job>().size(), 0u) << "max_failures = 1 allows it";
  EXPECT_THAT(last_said(), testing::HasSubstr("node n3 is lost: gone; n1 was suspended for 5 s"));
}

TEST_F(controller_lost_nodes, a_node_that_does_not_rejoin_is_named) {
  begin({"n1", "n2", "n3"});
  const auto first = lives_ - 3;
  suspended({"n2", "n3"});
  joins_with_roles("n2", first + 1, 0);
  pass(5100ms);
  ASSERT_EQ(recoveries(), 1u);
  found_live({"n1", "n2"});
  ready({"n1", "n2"});
  h_->on_handover(id_, 45, now_, out_);
  swap_all({"n1", "n2"});
  EXPECT_EQ(said_of("recovered").back(),
            "n1 was suspended for 5 s, and nodes closed their connections; node n3 is lost; continued without n3");
}

TEST_F(controller_lost_nodes, a_role_that_fails_while_nodes_rejoin_does_not_end_the_wait) {
  begin({"n1", "n2", "n3"});
  suspended({"n2", "n3"});
  const role_failure what{"worker0", "label 9 of 4 classes"};
  h_->on("n1", trouble{id_, "n1", what.text(), what}, now_, out_);
  EXPECT_EQ(recoveries(), 0u);
  EXPECT_EQ(sent<end_job>().size(), 0u);
}

template <class O>
std::size_t count(const member_orders& out) {
  return static_cast<std::size_t>(
      std::count_if(out.begin(), out.end(), [](const auto& o) { return std::holds_alternative<O>(o); }));
}

// The introduction that the member sends to the coordinator; null: none.
const join* join_in(const member_orders& out) {
  const join* last = nullptr;
  for (const auto& o : out)
    if (const auto* p = std::get_if<to_peer>(&o))
      if (const auto* j = std::get_if<join>(&p->what)) last = j;
  return last;
}

TEST(member_of_a_silent_coordinator, keeps_its_roles_and_drops_the_plan_that_it_prepares) {
  member m("n2", "n1");
  member_orders out;
  const auto now = instant{} + 1000s;
  m.on(joined{}, now, out);
  m.on(prepare{5, {}, "h", {{"n2", "a", 1}}}, now, out);
  m.on_made(5, {}, out);
  m.on(revise{{5, {}, "h2", {{"n2", "a", 1}}}, 1, {}, {}, {}, {}}, now, out);
  out.clear();
  m.on_coordinator_down("peer_silent: no data received for 5 s", out);
  m.on_coordinator_up(out);
  EXPECT_EQ(count<forget_plan>(out), 1u);
  EXPECT_EQ(count<end_roles>(out), 0u);
  const auto* again = join_in(out);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->job, 5u);
  EXPECT_EQ(again->plan_generation, 0u);
}

// It has dialed twice while the coordinator's daemon was suspended.
TEST(member_of_a_silent_coordinator, keeps_its_roles_when_the_connection_that_joined_is_closed_before_an_order) {
  for (const bool ordered : {false, true}) {
    member m("n2", "n1");
    member_orders out;
    const auto now = instant{} + 1000s;
    m.on(joined{}, now, out);
    m.on(prepare{5, {}, "h", {{"n2", "a", 1}}}, now, out);
    m.on_made(5, {}, out);
    m.on_coordinator_down("peer_silent: no data received for 5 s", out);
    m.on_coordinator_up(out);
    m.on(joined{}, now, out);
    if (ordered) m.on(forget{5, 1}, now, out);
    out.clear();
    m.on_coordinator_down("peer_closed: the connection was closed", out);
    m.on_coordinator_up(out);
    EXPECT_EQ(count<end_roles>(out), ordered ? 1u : 0u);
    const auto* again = join_in(out);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->job, ordered ? 0u : 5u);
  }
}

// --- commands to a job that does not run

class controller_phases : public controller_lost_nodes {
 protected:
  // The job is in this phase.
  void enter(job_run::phase at) {
    using enum job_run::phase;
    out_.clear();
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    for (const char* n : {"n1", "n2"}) joins(n);
    if (at == queued) submit_job({"n1"});  // runs before it
    submit_job(at == gathering ? std::vector<std::string>{"n1", "n3"} : std::vector<std::string>{"n1", "n2"});
    if (at == queued || at == gathering || at == preparing || at == checking) return;
    for (const char* n : {"n1", "n2"}) h_->on(n, prepared{id_, {}}, now_, out_);
    h_->on_event({id_, {3, done_event{}}}, now_, out_);
  }
  void submit_job(const std::vector<std::string>& nodes) {
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    id_ = ordered_in<check_text>(out_).back().job;
    h_->on_checked(id_, plan(nodes), now_, out_);
  }
  std::string answer_to(const command& c) {
    const auto told = h_->tell(id_, c, now_, out_);
    return told ? std::string() : told.error().text;
  }
};

TEST_F(controller_phases, each_command_gets_the_answer_of_the_phase) {
  using enum job_run::phase;
  const std::vector<std::pair<job_run::phase, std::string>> answers = {{queued, " has not started yet: it is queued"},
                                                                       {gathering, " has not started yet: it waits for its nodes"},
                                                                       {preparing, " has not started yet: its nodes prepare it"},
                                                                       {ending, " is ending"}};
  const std::vector<command> commands = {{pause_command{}},           {resume_command{}},
                                         {checkpoint_command{}},      {eval_command{}},
                                         {drain_command{"n2"}},       {add_node_command{"n2"}},
                                         {move_command{"fc6", "n2"}}, {balance_command{{1, 1}}},
                                         {mode_command{{"bsp", {}}}}, {set_command{"train.dynamics.lr", 1}},
                                         {staleness_command{}}};
  for (const auto& [phase, answer] : answers)
    for (const auto& c : commands) {
      enter(phase);
      EXPECT_EQ(answer_to(c), "job " + std::to_string(number_of(id_)) + answer) << name_of(c);
    }
}

// --- the reasons of one recovery

TEST_F(controller_lost_nodes, a_recovery_after_two_failures_gives_both_reasons) {
  begin({"n1", "n2", "n3"});
  dies("n2");
  now_ += 1s;
  joins("n2");
  dies("n3");
  found({"n1", "n2"}, 40);
  ready({"n1", "n2"});
  now_ += 1s;
  const auto asked_before = ordered<check_move>();
  swap_all({"n1", "n2"});
  EXPECT_EQ(ordered<check_move>(), asked_before) << "n2 has roles already: it is not added";
  EXPECT_EQ(said_of("recovered"), (std::vector<std::string>{"node n2 is lost: gone; node n3 is lost: gone; continued without n3; "
                                                            "n2 has joined again"}));
  EXPECT_NEAR(sent<said>().back().second.values.at(0).second, 2000, 0.1) << "since the first failure";
}

// --- drain, move and add-node of a node in each state

struct node_case {
  const char* state;
  const char* node;
  // "planned", "done", or the reason of the refusal
  const char* drain;
  const char* move;
  const char* add;
};

class controller_named_nodes : public controller_lost_nodes {
 protected:
  // A job on n1, n2 and n3, one of which is then in the state of the case.
  void enter(const std::string& state) {
    begin({"n1", "n2", "n3"});
    if (state == "lost" || state == "drained and lost") continues_without_n3();
    if (state == "drained" || state == "drained and lost") drain_n3();
    if (state == "absent") {
      h_.emplace(cluster_, "n1", std::uint16_t{9});
      for (const char* n : {"n1", "n2"}) joins(n);
      h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
      id_ = ordered_in<check_text>(out_).back().job;
      h_->on_checked(id_, plan({"n1", "n2", "n3"}), now_, out_);
      pass(9s);
      found({"n1", "n2"}, 0);
      ready({"n1", "n2"});
      swap_all({"n1", "n2"});
    }
    out_.clear();
  }
  void drain_n3() {
    (void)h_->tell(0, {drain_command{"n3"}}, now_, out_);
    carry_out_drain();
  }
  void carry_out_drain() {
    const auto* wish = asked();
    if (!wish || wish->back) return;
    auto changes = wish->so_far;
    changes.without.insert("n3");
    h_->on_plan_found({id_, {}, changes, plan({"n1", "n2"}), {"bsp"}, wish->plan_generation, 0}, now_, out_);
    ready({"n1", "n2"});
    h_->on_handover(id_, 44, now_, out_);
    swap_all({"n1", "n2", "n3"});
  }
  std::string result_of(const command& c) {
    out_.clear();
    (void)h_->tell(0, c, now_, out_);
    if (asked()) return "planned";
    const auto moved = said_of("moved"), refused = said_of("refused");
    return !moved.empty() ? "done" : refused.empty() ? "nothing" : refused.back();
  }
};

class controller_node_states : public controller_named_nodes, public testing::WithParamInterface<node_case> {};

TEST_P(controller_node_states, each_command_gets_the_answer_of_the_state) {
  const auto& x = GetParam();
  enter(x.state);
  EXPECT_EQ(result_of({drain_command{x.node}}), x.drain);
  enter(x.state);
  EXPECT_EQ(result_of({move_command{"fc6", x.node}}), x.move);
  enter(x.state);
  EXPECT_EQ(result_of({add_node_command{x.node}}), x.add);
}

// "planned": the job executor decides, with the reasons of tests/sim/moves_test.cpp.
INSTANTIATE_TEST_SUITE_P(
    of, controller_node_states,
    testing::Values(node_case{"up", "n3", "planned", "planned", "planned"}, node_case{"up", "n1", "planned", "planned", "planned"},
                    node_case{"up", "n9", "planned", "planned", "planned"},
                    node_case{"drained", "n3", "planned", "planned", "planned"},
                    node_case{"lost", "n3", "done", "no daemon answers as n3",
                              "no daemon answers as n3; the job uses it again when it joins"},
                    node_case{"drained and lost", "n3", "planned", "no daemon answers as n3", "no daemon answers as n3"},
                    node_case{"absent", "n3", "done", "no daemon answers as n3",
                              "no daemon answers as n3; the job uses it again when it joins"}));

TEST_F(controller_named_nodes, a_lost_node_that_a_user_drains_stays_unused_until_add_node) {
  begin({"n1", "n2", "n3"});
  continues_without_n3();
  repl_view lost;
  h_->fill(lost, now_);
  EXPECT_FALSE(lost.nodes.at(2).drained);
  out_.clear();
  (void)h_->tell(0, {drain_command{"n3"}}, now_, out_);
  EXPECT_EQ(said_of("moved"), (std::vector<std::string>{"drained n3"}));
  ASSERT_EQ(ordered<journal_line>(), 1u);
  EXPECT_THAT(ordered_in<journal_line>(out_)[0].line, testing::HasSubstr("\"without\":[\"n3\"]"));
  repl_view v;
  h_->fill(v, now_);
  EXPECT_EQ(v.nodes.at(2).note, "drained: job 1 does not use it until `add-node n3`");
  EXPECT_TRUE(v.nodes.at(2).drained && v.nodes.at(2).off);
  out_.clear();
  joins("n3");
  EXPECT_FALSE(asked()) << "the node is drained";
  (void)h_->tell(0, {add_node_command{"n3"}}, now_, out_);
  ASSERT_TRUE(asked());
  EXPECT_TRUE(asked()->so_far.without.contains("n3"));
}

TEST_F(controller_named_nodes, a_node_that_shuts_down_during_its_drain_stays_unused) {
  begin({"n1", "n2", "n3"});
  (void)h_->tell(0, {drain_command{"n3"}}, now_, out_);
  h_->on("n3", leaving{}, now_, out_);
  carry_out_drain();
  dies("n3");
  out_.clear();
  joins("n3");
  EXPECT_FALSE(asked());
}

}  // namespace
}  // namespace troupe::control
