// Submissions without the rest of the controller: one check at a time, uploads, answers, the queue.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/submissions.hpp"
#include "tests/cluster/controller_orders.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_submissions : public testing::Test {
 protected:
  static cluster_spec one_node() {
    cluster_spec c;
    node_spec s;
    s.name = "n1";
    c.nodes.push_back(s);
    return c;
  }
  std::uint32_t submits(const std::string& client, given_file given = {}) {
    submissions_.submit("alice", client, {{"job.toml", "text", {}}, true, 5, given}, now_, out_);
    return state_.jobs.all().empty() ? 0 : state_.jobs.all().rbegin()->first;
  }
  static checked facts() {
    checked c;
    c.name = "tiny";
    c.nodes = {"n1"};
    c.room = 100;
    return c;
  }
  void is_checked(std::uint32_t id, checked c = facts()) {
    submissions_.checked(id, std::move(c), now_, out_);
    submissions_.next_check(out_);
  }
  std::vector<std::uint32_t> checks() const {
    std::vector<std::uint32_t> ids;
    for (const auto& c : ordered_in<check_text>(out_)) ids.push_back(c.job);
    return ids;
  }
  std::string last_refusal() const {
    const auto all = messages_in<submitted>(out_);
    return all.empty() || all.back().messages.empty() ? std::string() : all.back().messages.front();
  }

  controller_state state_{membership(one_node(), "n1"), {}, 0, {}, false};
  submissions submissions_{state_, 7};
  orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(controller_submissions, one_check_runs_at_a_time) {
  const auto a = submits("c1"), b = submits("c2");
  EXPECT_EQ(checks(), std::vector<std::uint32_t>{a});
  is_checked(a);
  EXPECT_EQ(checks(), (std::vector<std::uint32_t>{a, b}));
}

TEST_F(controller_submissions, a_submission_costs_no_check_when_its_client_has_gone) {
  const auto a = submits("c1");
  submits("c2");
  submissions_.disconnected("c2", now_, out_);
  is_checked(a);
  EXPECT_EQ(checks(), std::vector<std::uint32_t>{a});
  EXPECT_EQ(state_.jobs.all().size(), 1u);
}

TEST_F(controller_submissions, a_client_gets_one_answer_and_its_place_in_the_queue) {
  state_.active = 99;
  const auto a = submits("c1"), b = submits("c2");
  is_checked(a);
  is_checked(b);
  const auto answers = messages_in<submitted>(out_);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].ahead, 1u);
  EXPECT_EQ(answers[1].ahead, 2u);
  EXPECT_FALSE(state_.jobs.find(a)->from.client);
  EXPECT_TRUE(state_.jobs.find(a)->log.followers().contains("c1"));
  EXPECT_EQ(submissions_.next_in_queue(), a);
  submissions_.leave_queue(b);
  EXPECT_FALSE(submissions_.next_in_queue());
}

TEST_F(controller_submissions, a_file_is_requested_piece_by_piece_and_then_checked_with_the_job) {
  const auto a = submits("c1", {given_file::weights, "w.st", 10});
  is_checked(a);
  submissions_.take("c1", {a, 0, 10, "12345", {}}, now_, out_);
  submissions_.take("c1", {a, 0, 10, "12345", {}}, now_, out_);  // not the next one
  EXPECT_EQ(last_refusal(), "w.st: upload rejected: chunk offset or size does not match the announced file");
  EXPECT_FALSE(state_.jobs.find(a));

  out_.clear();
  const auto b = submits("c1", {given_file::weights, "w.st", 10});
  is_checked(b);
  for (std::uint64_t at : {0u, 5u}) {
    EXPECT_EQ(messages_in<fetch>(out_).back().offset, at);
    submissions_.take("c1", {b, at, 10, "12345", {}}, now_, out_);
    submissions_.piece_kept(b, {}, now_, out_);
  }
  EXPECT_EQ(checks().size(), 2u);
  is_checked(b);
  EXPECT_EQ(submissions_.next_in_queue(), b);
}

TEST_F(controller_submissions, a_file_is_refused_when_a_file_of_the_job_is_smaller) {
  const auto a = submits("c1", {given_file::weights, "w.st", 101});
  is_checked(a);
  EXPECT_EQ(last_refusal(), "w.st: the file has 101 bytes; a file of this job has at most 100");
  EXPECT_EQ(ordered_in<drop_given>(out_).size(), 1u);
}

TEST_F(controller_submissions, late_checks_and_pieces_are_refused) {
  const auto a = submits("c1", {given_file::weights, "w.st", 10});
  is_checked(a);
  submits("c2");
  now_ += 61s;
  submissions_.watch_deadlines(now_, out_);
  EXPECT_TRUE(state_.jobs.all().empty());
  EXPECT_EQ(last_refusal(), "reading the job and its data took more than 60 s");
}

TEST_F(controller_submissions, a_restored_job_fails_when_its_check_does) {
  auto& j = state_.jobs.add(submissions_.numbers().id_of(3));
  j.from.restored = true;
  submissions_.check_again(j, now_, out_);
  now_ += 61s;
  submissions_.watch_deadlines(now_, out_);  // restored jobs have 10 minutes
  EXPECT_FALSE(j.log.ended());
  checked wrong;
  wrong.messages = {"no such layer"};
  is_checked(j.id, wrong);
  EXPECT_EQ(j.log.last()->event.as<error_event>()->message, "cannot be restored: no such layer");
  EXPECT_TRUE(j.run.over());
}

TEST_F(controller_submissions, no_submission_is_accepted_while_the_daemon_shuts_down) {
  submits("c1");
  state_.draining = true;
  submissions_.close(now_, out_);
  EXPECT_TRUE(state_.jobs.all().empty());
  submits("c2");
  EXPECT_EQ(last_refusal(), "n1 shuts down and accepts no more jobs");
}

}  // namespace
}  // namespace troupe::control
