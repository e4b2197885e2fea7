// The command `kill` of the cluster controller: it ends a job in any phase, at once and without a
// checkpoint.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_kill : public testing::Test {
 protected:
  controller_kill() {
    cluster_.name = "lab";
    for (const char* n : {"n1", "n2"}) {
      node_spec s;
      s.name = n;
      s.address = "127.0.0.1:1";
      cluster_.nodes.push_back(s);
    }
    h_.emplace(cluster_, "n1", std::uint16_t{7});
  }
  void join_one(const std::string& n) { h_->on(n, join{"127.0.0.1:2", "same", protocol, abi_version, 1}, now_, out_); }
  std::uint32_t submit_one() {
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    const auto id = ordered_in<check_text>(out_).back().job;
    checked c;
    c.name = "tiny";
    c.plan_hash = "h";
    c.nodes = {"n1", "n2"};
    h_->on_checked(id, c, now_, out_);
    return id;
  }
  void run(std::uint32_t id) {
    for (const char* n : {"n1", "n2"}) h_->on(n, prepared{id, {}}, now_, out_);
  }
  std::string kill(std::uint32_t number) {
    out_.clear();
    return test::error_text(h_->tell({"client.ann", certificate_role::admin}, number, {kill_command{}}, now_, out_));
  }
  repl_job shown(std::uint32_t number) {
    repl_view v;
    h_->fill(v, now_);
    for (const auto& j : v.jobs)
      if (j.id == number) return j;
    return {};
  }
  void is_killed(std::uint32_t number) {
    EXPECT_EQ(shown(number).state, job_state::failed);
    EXPECT_EQ(shown(number).message, "killed by client.ann");
    const auto said_last = messages_in<said>(out_);
    ASSERT_FALSE(said_last.empty());
    EXPECT_EQ(said_last.back().kind, "error");
    std::string journal;
    for (const auto& l : ordered_in<journal_line>(out_)) journal += l.line;
    EXPECT_NE(journal.find("\"is\":\"over\""), std::string::npos) << journal;
    EXPECT_NE(journal.find("killed by client.ann"), std::string::npos) << journal;
    EXPECT_EQ(ordered_in<tell_job>(out_).size(), 0u) << "no role is asked for anything";
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(controller_kill, ends_a_running_job_on_all_nodes) {
  join_one("n1");
  join_one("n2");
  const auto id = submit_one();
  run(id);
  EXPECT_EQ(kill(1), "");
  EXPECT_EQ(sent_in<end_job>(out_).size(), 2u);
  EXPECT_EQ(shown(1).state, job_state::ending);
  EXPECT_EQ(test::error_text(h_->tell({"client.ann", certificate_role::admin}, 1, {kill_command{}}, now_, out_)),
            "job 1 is ending already");
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{id, 0}, now_, out_);
  is_killed(1);
  EXPECT_EQ(kill(1), "job 1 is over");
}

TEST_F(controller_kill, does_not_wait_for_a_node_that_hangs) {
  join_one("n1");
  join_one("n2");
  const auto id = submit_one();
  run(id);
  EXPECT_EQ(kill(0), "") << "0: the running job";
  h_->on("n1", ended{id, 0}, now_, out_);
  EXPECT_EQ(shown(1).state, job_state::ending);
  h_->on_tick(now_ += 6s, out_);
  is_killed(1);
}

TEST_F(controller_kill, ends_queued_gathering_and_preparing_jobs) {
  join_one("n1");
  const auto first = submit_one();
  submit_one();
  EXPECT_EQ(shown(1).state, job_state::gathering);
  EXPECT_EQ(shown(2).state, job_state::queued);
  EXPECT_EQ(kill(2), "");
  is_killed(2);
  EXPECT_EQ(kill(1), "");
  is_killed(1);
  join_one("n2");
  EXPECT_EQ(shown(1).state, job_state::failed) << "a node that joins later does not start it";
  const auto third = submit_one();
  EXPECT_EQ(shown(3).state, job_state::preparing);
  EXPECT_EQ(kill(3), "");
  for (const char* n : {"n1", "n2"}) h_->on(n, ended{third, 0}, now_, out_);
  is_killed(3);
  EXPECT_NE(first, third);
  EXPECT_EQ(kill(9), "there is no job 9");
}

TEST_F(controller_kill, needs_the_right_to_steer_the_job) {
  join_one("n1");
  join_one("n2");
  run(submit_one());
  EXPECT_NE(test::error_text(h_->tell({"client.eve", certificate_role::watch}, 1, {kill_command{}}, now_, out_)), "");
  EXPECT_NE(test::error_text(h_->tell({"client.eve", certificate_role::submit}, 1, {kill_command{}}, now_, out_)), "")
      << "the job of another";
  EXPECT_EQ(shown(1).state, job_state::running);
}

}  // namespace
}  // namespace troupe::control
