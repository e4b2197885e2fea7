// The plans of a job: generations, who is awaited, which commands wait, and what the journal gets.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/replanning.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
const instant plan_begins = instant{} + 1000s;

plan_found next_plan_on(std::vector<std::string> nodes) {
  plan_found f;
  f.plan.nodes = std::move(nodes);
  f.changes.without = {"n9"};
  f.mode = {"bsp"};
  return f;
}

node_loss loss_because(const std::string& why) { return {{why, {"n2"}}, {"n2"}, {"n2"}, {"n2"}}; }

TEST(controller_replanning, a_change_passes_its_phases_and_becomes_the_running_plan) {
  replanning p;
  EXPECT_EQ(p.generation(), 0u);
  EXPECT_EQ(p.change({drain_command{"n9"}}, plan_begins), 1u);
  EXPECT_TRUE(p.next_is(successor::phase::checking));
  p.found(next_plan_on({"n1", "n2"}), plan_begins);
  p.prepare(plan_begins);
  EXPECT_FALSE(p.ready("n1", plan_begins));
  EXPECT_FALSE(p.ready("n1", plan_begins));
  EXPECT_TRUE(p.ready("n2", plan_begins));
  EXPECT_FALSE(p.ready("n2", plan_begins));
  p.hand_over();
  EXPECT_FALSE(p.overdue(plan_begins + 1000h));
  p.swap(7, {"n1"}, plan_begins);
  EXPECT_TRUE(p.swapped("n1", plan_begins));
  EXPECT_FALSE(p.swapped("n1", plan_begins));
  EXPECT_TRUE(p.all_swapped());
  const auto n = p.begin();
  EXPECT_EQ(n.step, 7u);
  EXPECT_EQ(p.generation(), 1u);
  EXPECT_EQ(p.changes().without, std::set<std::string>{"n9"});
  EXPECT_FALSE(p.next());
}

TEST(controller_replanning, each_answer_gives_the_nodes_that_have_not_answered_another_minute) {
  replanning p;
  p.change({drain_command{"n9"}}, plan_begins);
  p.found(next_plan_on({"n1", "n2", "n3"}), plan_begins);
  p.prepare(plan_begins);
  EXPECT_FALSE(p.ready("n1", plan_begins + 50s));
  EXPECT_FALSE(p.overdue(plan_begins + 100s)) << "n1 was ready 50 s ago";
  EXPECT_FALSE(p.ready("n1", plan_begins + 100s)) << "it was not awaited, so it gives no time";
  EXPECT_TRUE(p.overdue(plan_begins + 111s));
  p.swap(7, {"n1", "n2"}, plan_begins);
  EXPECT_TRUE(p.swapped("n2", plan_begins + 59s));
  EXPECT_FALSE(p.overdue(plan_begins + 118s));
  EXPECT_TRUE(p.overdue(plan_begins + 120s));
}

TEST(controller_replanning, generations_grow_when_a_plan_is_dropped) {
  replanning p;
  p.change({drain_command{"n2"}}, plan_begins);
  EXPECT_TRUE(p.drop());
  EXPECT_FALSE(p.drop());
  EXPECT_EQ(p.change({drain_command{"n2"}}, plan_begins), 2u);
  EXPECT_EQ(p.generation(), 0u);
}

TEST(controller_replanning, commands_wait_from_the_handover_on) {
  replanning p;
  EXPECT_FALSE(p.holds_commands());
  p.change({drain_command{"n2"}}, plan_begins);
  p.found(next_plan_on({"n1"}), plan_begins);
  p.prepare(plan_begins);
  EXPECT_FALSE(p.holds_commands());
  p.hand_over();
  EXPECT_TRUE(p.holds_commands());
  p.drop();
  EXPECT_FALSE(p.holds_commands());
}

TEST(controller_replanning, commands_wait_at_once_when_the_plan_recovers) {
  replanning p;
  p.recover(loss_because("n2 is lost"), {}, plan_begins);
  EXPECT_TRUE(p.holds_commands());
}

// A user's change whose roles had begun to swap is part of the plan that the recovery makes.
TEST(controller_replanning, a_change_is_adopted_when_a_node_fails_while_swapping) {
  replanning p;
  p.change({drain_command{"n3"}, 7}, plan_begins);
  p.node_returns();
  auto found = next_plan_on({"n1", "n2"});
  found.changes.without = {"n3"};
  p.found(found, plan_begins);
  p.prepare(plan_begins);
  p.hand_over();
  p.swap(5, {"n1", "n2"}, plan_begins);
  p.break_swap("n2", {"n2 is lost", {"n2"}});
  p.break_swap("n1", {"n1 is lost", {"n1"}});
  p.begin();
  EXPECT_EQ(p.changes().without, (std::set<std::string>{"n3"}));
  const auto adopted = p.take_adopted();
  ASSERT_EQ(adopted.size(), 1u);
  EXPECT_EQ(adopted[0].wish.id, 7u);
  EXPECT_TRUE(adopted[0].node_returns);
  EXPECT_TRUE(p.take_adopted().empty());
}

TEST(controller_replanning, every_phase_but_a_handover_has_a_deadline) {
  replanning p;
  EXPECT_FALSE(p.overdue(plan_begins));
  p.recover(loss_because("n2 is lost"), {}, plan_begins);
  EXPECT_TRUE(p.overdue(plan_begins + 61s));
  p.found(next_plan_on({"n1"}), plan_begins);
  p.prepare(plan_begins + 100s);
  EXPECT_FALSE(p.overdue(plan_begins + 160s));
  p.collect_state(plan_begins + 160s);
  EXPECT_FALSE(p.overdue(plan_begins + 170s));
  EXPECT_TRUE(p.overdue(plan_begins + 171s));
  p.swap(3, {"n1"}, plan_begins + 171s);
  EXPECT_TRUE(p.overdue(plan_begins + 232s));
}

TEST(controller_replanning, a_plan_that_lost_a_node_while_swapping_leaves_roles_without_state) {
  replanning p;
  p.change({drain_command{"n3"}}, plan_begins);
  p.found(next_plan_on({"n1", "n2"}), plan_begins);
  p.prepare(plan_begins);
  p.hand_over();
  p.swap(5, {"n1", "n2"}, plan_begins);
  p.break_swap("n2", {"n2 is lost", {"n2"}});
  p.break_swap("n1", {"n1 is lost", {"n1"}});
  EXPECT_TRUE(p.all_swapped());
  const auto n = p.begin();
  EXPECT_TRUE(n.broken);
  EXPECT_EQ(n.loss->why, "n2 is lost; n1 is lost");
  EXPECT_FALSE(p.generation());
}

TEST(controller_replanning, the_first_step_counts_once_per_later_plan) {
  replanning p;
  EXPECT_FALSE(p.first_step());
  p.change({}, plan_begins);
  p.found(next_plan_on({"n1"}), plan_begins);
  p.begin();
  EXPECT_TRUE(p.first_step());
  EXPECT_FALSE(p.first_step());
}

TEST(controller_replanning, the_journal_gets_changes_by_users_once) {
  replanning p;
  p.change({}, plan_begins);
  p.found(next_plan_on({"n1"}), plan_begins);
  p.begin();
  EXPECT_FALSE(p.to_note({"n9"}));  // n9 failed: no user excluded it
  EXPECT_EQ(p.to_note({})->without, std::set<std::string>{"n9"});
  EXPECT_FALSE(p.to_note({}));
  EXPECT_TRUE(p.restored_changes());
}

}  // namespace
}  // namespace troupe::control
