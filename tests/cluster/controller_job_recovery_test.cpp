// What a job knows of failures: which nodes its next plan avoids, which rejoin, and what it
// repeats.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/job_recovery.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
using node_names = std::set<std::string>;
const instant all_joined = instant{} + 1000s;

class controller_job_recovery : public testing::Test {
 protected:
  controller_job_recovery() {
    for (const char* n : {"n1", "n2", "n3", "n4"}) nodes_.joined(n, {"127.0.0.1:2", "same", protocol, abi_version, 1}, all_joined);
    r_.begin(std::nullopt);
  }
  static cluster_spec cluster() {
    cluster_spec c;
    for (const char* n : {"n1", "n2", "n3", "n4"}) {
      node_spec s;
      s.name = n;
      c.nodes.push_back(s);
    }
    return c;
  }

  membership nodes_{cluster(), "n1"};
  job_recovery r_;
};

TEST_F(controller_job_recovery, a_lost_node_is_gone_and_used_again_when_it_rejoins) {
  nodes_.disconnected("n2", all_joined);
  const auto a = r_.assess({"why", {"n2"}}, nodes_, {"n1", "n2"}, {});
  EXPECT_EQ(a.down, node_names{"n2"});
  EXPECT_EQ(a.loss.gone, node_names{"n2"});
  EXPECT_EQ(a.loss.without, node_names{"n2"});
  EXPECT_EQ(a.loss.silent, node_names{"n2"});
  EXPECT_EQ(a.loss.why, "why");
  EXPECT_EQ(r_.failures().away, node_names{"n2"});
}

TEST_F(controller_job_recovery, a_drained_node_is_not_used_again_when_it_rejoins) {
  nodes_.disconnected("n2", all_joined);
  r_.assess({"why", {}}, nodes_, {"n1"}, {"n2"});
  EXPECT_TRUE(r_.failures().away.empty());
}

TEST_F(controller_job_recovery, a_lost_node_that_a_user_drains_is_not_used_again_when_it_rejoins) {
  EXPECT_FALSE(r_.stays_away("n2"));
  nodes_.disconnected("n2", all_joined);
  r_.assess({"why", {"n2"}}, nodes_, {"n1", "n2"}, {});
  EXPECT_TRUE(r_.stays_away("n2"));
  EXPECT_TRUE(r_.failures().away.empty());
  r_.assess({"why", {}}, nodes_, {"n1"}, {"n2"});
  EXPECT_TRUE(r_.failures().away.empty());
}

TEST_F(controller_job_recovery, a_node_that_the_next_plan_uses_again_is_not_away) {
  nodes_.disconnected("n2", all_joined);
  r_.assess({"why", {"n2"}}, nodes_, {"n1", "n2", "n3"}, {});
  nodes_.joined("n2", {"127.0.0.1:2", "same", protocol, abi_version, 2}, all_joined);
  nodes_.disconnected("n3", all_joined);
  r_.assess({"why", {"n3"}}, nodes_, {"n1", "n2", "n3"}, {});
  r_.uses_all_but({"n3"});
  EXPECT_EQ(r_.failures().away, node_names{"n3"});
}

TEST_F(controller_job_recovery, each_node_that_is_left_out_has_its_reason) {
  nodes_.disconnected("n2", all_joined);
  nodes_.leaves("n3");
  nodes_.hangs("n4");
  const auto loss = r_.assess({"n1 was suspended", {}}, nodes_, {"n1", "n2", "n3", "n4"}, {}).loss;
  EXPECT_EQ(loss.why, "n1 was suspended; node n2 is lost; node n3 shuts down; a task on node n4 does not end");
  EXPECT_EQ(loss.nodes, (node_names{"n2", "n3", "n4"}));
  EXPECT_EQ(r_.assess(loss, nodes_, {"n1", "n2", "n3", "n4"}, {}).loss.why, loss.why) << "no reason is given twice";
}

TEST_F(controller_job_recovery, a_node_that_leaves_can_report_its_state) {
  nodes_.leaves("n2");
  nodes_.leaves("n1");  // the coordinator's node stays in the plan
  const auto a = r_.assess({"why", {}}, nodes_, {"n1", "n2"}, {});
  EXPECT_EQ(a.loss.without, node_names{"n2"});
  EXPECT_TRUE(a.loss.gone.empty());
  EXPECT_TRUE(a.loss.silent.empty());
}

TEST_F(controller_job_recovery, a_node_that_lost_its_roles_is_silent_until_a_plan_begins) {
  r_.lost_connection("n2");
  EXPECT_EQ(r_.assess({"why", {}}, nodes_, {"n1", "n2"}, {}).loss.silent, node_names{"n2"});
  r_.has_all_roles();
  EXPECT_TRUE(r_.assess({"why", {}}, nodes_, {"n1", "n2"}, {}).loss.silent.empty());
}

TEST_F(controller_job_recovery, roles_restart_again_only_after_a_further_step) {
  EXPECT_TRUE(r_.may_restart_roles(5));
  EXPECT_FALSE(r_.may_restart_roles(5));
  EXPECT_FALSE(r_.may_restart_roles(4));
  EXPECT_TRUE(r_.may_restart_roles(6));
}

TEST_F(controller_job_recovery, nodes_have_five_seconds_to_rejoin) {
  r_.begin_rejoining({{}, {"suspended", {}}, all_joined});
  r_.await("n2");
  r_.await("n3");
  EXPECT_FALSE(r_.rejoins()->over(all_joined + 4s));
  EXPECT_TRUE(r_.rejoins()->over(all_joined + 5s));
  r_.joined("n2", true);
  r_.joined("n3", false);
  EXPECT_FALSE(r_.rejoins()->over(all_joined + 499ms));
  EXPECT_TRUE(r_.rejoins()->over(all_joined + 500ms));
}

TEST_F(controller_job_recovery, steps_before_a_restart_of_the_daemon_count_as_repeated_once) {
  r_.restore({}, false, 40);
  EXPECT_EQ(r_.steps_again(0, 30), 10u);
  EXPECT_EQ(r_.steps_again(35, 30), 5u);
  EXPECT_EQ(r_.steps_again(30, 30), 0u);
  r_.restore({}, false, 40);
  r_.made_step();
  EXPECT_EQ(r_.steps_again(31, 30), 1u);
}

TEST_F(controller_job_recovery, a_lost_node_that_a_user_drains_is_no_longer_held_to_be_unreachable) {
  r_.failures().away.insert("n2");
  r_.failures().apart.insert("n2");
  r_.failures().not_now.insert("n2");
  EXPECT_TRUE(r_.stays_away("n2"));
  EXPECT_TRUE(r_.failures().apart.empty());
  EXPECT_TRUE(r_.failures().not_now.empty());
  EXPECT_FALSE(r_.stays_away("n2")) << "it is none of those that are used again";
}

}  // namespace
}  // namespace troupe::control
