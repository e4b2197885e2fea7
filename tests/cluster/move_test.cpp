// Layers move and nodes are drained and added while a job trains on real daemons: the weights equal
// those of an undisturbed job.
#include <thread>

#include "tests/cluster/moves.hpp"

namespace troupe::testing_cluster {
namespace {

using kind = repl_reply::kind;

class cluster_move : public move_test {};

TEST_F(cluster_move, ten_moves_and_drains_change_no_bit) {
  make_cluster(3);
  start_all();
  const auto set = workers(3, 2);
  train_with(tiny_job(), set,
             {"move ip2 n2", "move ip1 n3", "drain n3", "add-node n3", "move ip2 n1", "drain n2", "move conv1 n3", "add-node n2",
              "move ip1 n2", "move ip2 n3"});
  EXPECT_NE(ask("n2", "nodes").text.find("n3"), std::string::npos);
}

TEST_F(cluster_move, moves_of_a_bf16_job_change_no_bit) {
  make_cluster(3);
  start_all();
  auto set = workers(3, 2);
  set.emplace_back("job.precision=\"bf16\"");
  train_with(tiny_job(), set, {"move ip2 n2", "move conv1 n3", "drain n3", "add-node n3"});
}

TEST_F(cluster_move, a_drained_node_can_die_restart_and_be_added_again) {
  make_cluster(3);
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 3)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  EXPECT_EQ(ask("n1", "drain n3").how, kind::ok);
  EXPECT_EQ(ask("n1", "roles n3").text.find("worker2"), std::string::npos);
  kill_hard("n3");
  ASSERT_TRUE(daemon("n1").wait_log("node n3 is lost", 20s));
  const auto gone = ask("n1", "add-node n3");
  EXPECT_EQ(gone.how, kind::failed);
  EXPECT_NE(gone.text.find("no daemon answers as n3"), std::string::npos) << gone.text;
  EXPECT_NE(ask("n1", "move ip1 n3").text.find("no daemon answers as n3"), std::string::npos);
  start("n3");
  ASSERT_TRUE(joined("n3"));
  const auto back = ask("n2", "add-node n3");
  EXPECT_EQ(back.how, kind::ok) << back.text;
  EXPECT_TRUE(back.text.starts_with("added n3 at step ")) << back.text;
  expect_as_untouched(*b, tiny_job(), workers(3, 3));
}

TEST_F(cluster_move, invalid_moves_are_refused_and_training_continues) {
  make_cluster(3);
  start_all();
  EXPECT_NE(ask("n1", "move ip1 n2").text.find("no job is running"), std::string::npos);
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  const auto no = [&](const std::string& line, const std::string& why) {
    const auto r = ask("n1", line);
    EXPECT_EQ(r.how, kind::failed) << line;
    EXPECT_NE(r.text.find(why), std::string::npos) << line << ": " << r.text;
  };
  no("move ip9 n2", "no layer 'ip9'");
  no("move ip1 n9", "no node 'n9'");
  no("drain n1", "has the job's coordinator");
  no("add-node n2", "is not drained");
  no("move conv1.1 n2", "it has no parts to move");
  EXPECT_EQ(ask("n1", "drain n3").how, kind::ok);
  no("drain n3", "is drained already");
  no("move ip1 n3", "`add-node n3` makes it usable again");
  EXPECT_EQ(ask("n1", "move ip1 n2 extra").how, kind::failed);
  EXPECT_EQ(ask("n1", "move ip1").how, kind::usage);
  expect_as_untouched(*b, tiny_job(), workers(2, 1));
}

// A node failure during a move ends the job with an error that names the node. The next job runs.
TEST_F(cluster_move, a_node_failure_during_a_move_ends_a_job_that_allows_none) {
  make_cluster(3);
  start_all();
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto set = endless(workers(3, 2));
    set.emplace_back("job.max_failures=0");
    auto b = begin(tiny_job(), set);
    ASSERT_TRUE(b->wait_event("step", 20s, 10));
    std::thread asks([&] { ask("n1", "move ip1 n2"); });
    EXPECT_TRUE(b->wait_event("step", 20s, 10 + 2 * i));  // at another time in each round
    kill_hard("n3");
    const auto r = b->join();
    asks.join();
    ASSERT_FALSE(r.events.empty());
    EXPECT_TRUE(r.events.back().event.is<error_event>());
    EXPECT_NE(message_of(r.events.back().event).find("n3"), std::string::npos) << message_of(r.events.back().event);
    start("n3");
    ASSERT_TRUE(joined("n3"));
  }
  EXPECT_EQ(run(tiny_job(), workers(3, 2)).outcome.exit_code(), 0);
}

}  // namespace
}  // namespace troupe::testing_cluster
