// Admission of jobs by the cluster controller, without a cluster: limits of jobs and bytes, one
// check at a time, and job numbers that do not run out.
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/printable.hpp"
#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_admission : public testing::Test {
 protected:
  controller_admission() {
    node_spec s;
    s.name = "n1";
    s.address = "127.0.0.1:1";
    cluster_.nodes.push_back(s);
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    h_->on("n1", join{"127.0.0.1:2", "same", protocol, abi_version, 1}, now_, out_);
    out_.clear();
  }
  void submit_as(const std::string& client, std::uint64_t ask = 5, const std::string& text = "text") {
    h_->on(client, submit{{"job.toml", text, {}}, true, ask}, now_, out_);
  }
  static checked sound() {
    checked c;
    c.name = "tiny", c.plan_hash = "h", c.nodes = {"n1"};
    return c;
  }
  static checked wrong(const std::string& why = "job.toml:1:1: wrong") {
    checked c;
    c.messages = {why};
    return c;
  }
  template <class M>
  std::vector<M> sent() const {
    return messages_in<M>(out_);
  }
  template <class O>
  std::vector<O> ordered() const {
    return ordered_in<O>(out_);
  }
  std::size_t kept() const {
    repl_view v;
    h_->fill(v, now_);
    return v.jobs.size();
  }
  std::string refusal() const {
    const auto all = sent<submitted>();
    return all.empty() ? "none" : all.back().job != 0 ? "accepted" : all.back().messages.at(0);
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
};

// Every error message about a job contains its file name, and views show it.
TEST_F(controller_admission, a_submission_with_a_file_name_that_is_too_long_or_odd_is_refused) {
  for (const std::string& file : {std::string(4097, 'n'), std::string(900'000, 'n'), std::string("job\x1b[2J.toml")}) {
    h_->on("client.x", submit{{file, "text", {}}, true, 5}, now_, out_);
    EXPECT_EQ(refusal(), test::error_text(check_path(file)));
    h_->on("client.x", submit{{"job.toml", "text", {}}, true, 5, {given_file::weights, file, 8}}, now_, out_);
    EXPECT_EQ(refusal(), test::error_text(check_path(file)));
  }
  EXPECT_EQ(kept(), 0u);
  EXPECT_TRUE(ordered<check_text>().empty());
}

// A submission just below the limit of a message fits, but the nodes' messages add to it.
TEST_F(controller_admission, a_job_that_would_not_fit_the_messages_to_the_nodes_is_refused_at_once) {
  const auto with = [](std::size_t bytes) { return submit{{"job.toml", "text", {std::string(bytes, 'x')}}, true, 5}; };
  ASSERT_LE(encode(with(2'090'000)).size(), max_message);
  h_->on("client.x", with(2'090'000), now_, out_);
  EXPECT_EQ(refusal(),
            "the job file, its included files and its overrides have 2,090,050 bytes; on this cluster a job may have at most "
            "1,834,667: put long lists into files, or include less");
  EXPECT_EQ(kept(), 0u);
  h_->on("client.x", with(1'834'617), now_, out_);
  EXPECT_EQ(kept(), 1u) << refusal();
  h_->on("client.x", with(1'834'618), now_, out_);
  EXPECT_EQ(kept(), 1u);
  h_->on_checked(ordered<check_text>().at(0).job, sound(), now_, out_);
  const auto orders = sent<prepare>();
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_LE(encode(orders[0]).size() + (256 << 10), max_message) << "with room for changes";
}

TEST_F(controller_admission, jobs_being_checked_count_towards_the_limit_of_the_queue) {
  for (int i = 0; i < 256; ++i) submit_as("client." + std::to_string(i));
  EXPECT_TRUE(sent<submitted>().empty());
  submit_as("client.x");
  EXPECT_EQ(refusal(), "the queue is full: 256 jobs are being checked, queued or running; submit again when one is over");
  EXPECT_EQ(kept(), 256u);
  h_->on_checked(ordered<check_text>().at(0).job, wrong(), now_, out_);
  submit_as("client.x");
  EXPECT_EQ(kept(), 256u) << "the failed check freed one place";
}

TEST_F(controller_admission, the_texts_of_all_submissions_together_have_a_limit_in_bytes) {
  const std::string text(1 << 20, '#');
  std::uint64_t asks = 0;
  while (sent<submitted>().empty() && asks < 300) submit_as("client.1", ++asks, text);
  EXPECT_EQ(asks, 64u) << "64 MiB for texts and file names";
  EXPECT_NE(refusal().find("have 66060792 bytes of text, this one has 1048584, and the limit for all is 67108864"),
            std::string::npos)
      << refusal();
  submit_as("client.2", 1, "small");
  EXPECT_EQ(sent<submitted>().size(), 1u) << "a small submission still fits";
}

TEST_F(controller_admission, a_finished_job_does_not_count_towards_the_limits) {
  const std::string text(1 << 20, '#');
  for (int i = 0; i < 200; ++i) {
    out_.clear();
    submit_as("client.1", 1, text);
    const auto check = ordered<check_text>();
    ASSERT_EQ(check.size(), 1u) << i << ": " << refusal();
    h_->on_checked(check[0].job, sound(), now_, out_);
    h_->on("n1", prepared{check[0].job, "no"}, now_, out_);
    h_->on("n1", ended{check[0].job, 0}, now_, out_);
  }
}

TEST_F(controller_admission, records_of_finished_jobs_survive_200_submissions) {
  submit_as("client.1");
  const auto id = ordered<check_text>().at(0).job;
  h_->on_checked(id, sound(), now_, out_);
  h_->on("n1", prepared{id, {}}, now_, out_);
  h_->on_store_begun(id);
  h_->on_event({id, {1, done_event{}}}, now_, out_);
  h_->on_stored({id, kept_kind::weights, "/w", "abc", {}}, now_, out_);
  h_->on("n1", ended{id, 0}, now_, out_);
  for (int i = 0; i < 200; ++i) submit_as("client.1");
  h_->on_tick(now_, out_);
  EXPECT_EQ(h_->weights_of(id), "/w") << "its client may still fetch them";
}

TEST_F(controller_admission, only_one_check_runs_at_a_time) {
  for (int i = 0; i < 3; ++i) submit_as("client." + std::to_string(i));
  auto asked = ordered<check_text>();
  ASSERT_EQ(asked.size(), 1u);
  h_->on_checked(asked[0].job, sound(), now_, out_);
  asked = ordered<check_text>();
  ASSERT_EQ(asked.size(), 2u);
  h_->on_checked(asked[1].job, wrong(), now_, out_);
  EXPECT_EQ(ordered<check_text>().size(), 3u);
}

TEST_F(controller_admission, submissions_of_a_disconnected_client_are_dropped) {
  submit_as("client.1");
  for (int i = 0; i < 100; ++i) submit_as("client.2");
  submit_as("client.3");
  const auto under_way = ordered<check_text>().at(0).job;
  out_.clear();
  h_->on_peer_down("client.2", "gone", now_, out_);
  EXPECT_EQ(kept(), 2u);
  EXPECT_TRUE(sent<submitted>().empty());
  h_->on_peer_down("client.1", "gone", now_, out_);
  EXPECT_EQ(kept(), 1u);
  EXPECT_TRUE(ordered<check_text>().empty()) << "the first check is still running";
  h_->on_checked(under_way, sound(), now_, out_);
  EXPECT_TRUE(sent<prepare>().empty()) << "the job's client is gone, so it does not run";
  ASSERT_EQ(ordered<check_text>().size(), 1u);
  h_->on_checked(ordered<check_text>()[0].job, sound(), now_, out_);
  EXPECT_EQ(sent<submitted>().size(), 1u);
  EXPECT_EQ(sent<prepare>().size(), 1u);
}

TEST_F(controller_admission, an_accepted_job_keeps_running_when_its_client_disconnects) {
  submit_as("client.1");
  h_->on_checked(ordered<check_text>().at(0).job, sound(), now_, out_);
  h_->on_peer_down("client.1", "gone", now_, out_);
  EXPECT_EQ(kept(), 1u);
}

TEST_F(controller_admission, a_hanging_check_blocks_the_next_ones_and_all_are_refused_after_60_s) {
  submit_as("client.1", 1);
  now_ += 30s;
  submit_as("client.2", 2);
  const auto hangs = ordered<check_text>().at(0).job;
  now_ += 31s;
  h_->on_tick(now_, out_);
  ASSERT_EQ(sent<submitted>().size(), 1u);
  EXPECT_EQ(refusal(), "reading the job and its data took more than 60 s");
  now_ += 30s;
  h_->on_tick(now_, out_);
  ASSERT_EQ(sent<submitted>().size(), 2u);
  EXPECT_EQ(refusal(), "it was not checked within 60 s: n1 checks other jobs");
  submit_as("client.3", 3);
  EXPECT_EQ(ordered<check_text>().size(), 1u) << "the checker is still busy";
  h_->on_checked(hangs, sound(), now_, out_);
  EXPECT_EQ(ordered<check_text>().size(), 2u);
  EXPECT_EQ(kept(), 1u);
}

TEST_F(controller_admission, draining_refuses_submissions_that_are_not_accepted_yet) {
  submit_as("client.1", 1);
  submit_as("client.2", 2);
  h_->drain(now_, out_);
  ASSERT_EQ(sent<submitted>().size(), 2u);
  EXPECT_EQ(refusal(), "n1 shuts down");
  EXPECT_TRUE(h_->drained());
  h_->on_checked(ordered<check_text>().at(0).job, sound(), now_, out_);
  EXPECT_EQ(kept(), 0u);
  EXPECT_EQ(ordered<check_text>().size(), 1u);
}

TEST_F(controller_admission, refused_submissions_do_not_exhaust_job_numbers) {
  submit_as("client.0");
  const auto first = ordered<check_text>().at(0).job;
  h_->on_checked(first, sound(), now_, out_);  // shown to users as job 1
  for (int i = 0; i < 70'000; ++i) {
    out_.clear();
    submit_as("client.1");
    ASSERT_EQ(ordered<check_text>().size(), 1u) << i << ": " << refusal();
    h_->on_checked(ordered<check_text>()[0].job, wrong(), now_, out_);
  }
  out_.clear();
  submit_as("client.1");
  const auto last = ordered<check_text>().at(0).job;
  h_->on_checked(last, sound(), now_, out_);
  EXPECT_EQ(refusal(), "accepted");
  EXPECT_NE(number_of(last), number_of(first));
  EXPECT_NE(last >> 16, first >> 16) << "another tag, so files of an earlier job with this number are not reused";
}

TEST(job_numbers, numbers_wrap_to_the_next_tag_and_skip_those_in_use) {
  job_numbers n(7);
  std::set<std::uint32_t> ids;
  const auto none = [](std::uint32_t) { return false; };
  for (int i = 0; i < 65535; ++i) ids.insert(n.next(none));
  EXPECT_EQ(*ids.begin(), 7u << 16 | 1);
  EXPECT_EQ(*ids.rbegin(), 7u << 16 | 65535);
  EXPECT_EQ(ids.size(), 65535u);
  EXPECT_EQ(n.next([](std::uint32_t number) { return number < 10; }), 8u << 16 | 10);
  EXPECT_EQ(n.last(), 8u << 16 | 10);
  job_numbers last_tag(0xffff);
  for (int i = 0; i < 65535; ++i) last_tag.next(none);
  EXPECT_EQ(last_tag.next(none), 1u) << "never 0, which means no job";
}

// --- followers

TEST_F(controller_admission, the_history_is_sent_once_per_connection) {
  submit_as("client.1");
  const auto id = ordered<check_text>().at(0).job;
  h_->on_checked(id, sound(), now_, out_);
  h_->on("n1", prepared{id, {}}, now_, out_);
  for (std::uint64_t s = 1; s <= 100; ++s) h_->on_event({id, {s, step_event{}}}, now_, out_);
  out_.clear();
  for (int i = 0; i < 50; ++i) h_->on("client.9", follow{number_of(id)}, now_, out_);
  EXPECT_EQ(sent<said>().size(), 100u);
  EXPECT_EQ(sent<submitted>().size(), 50u) << "each is answered";
  out_.clear();
  h_->on("client.1", follow{number_of(id)}, now_, out_);
  EXPECT_EQ(sent<said>().size(), 0u) << "the submitting client has received every event";
  h_->on_event({id, {100, done_event{}}}, now_, out_);
  h_->on("n1", ended{id, 0}, now_, out_);
  out_.clear();
  for (int i = 0; i < 50; ++i) h_->on("client.8", follow{number_of(id)}, now_, out_);
  EXPECT_EQ(sent<said>().size(), 101u) << "also for a finished job";
  out_.clear();
  h_->on_peer_down("client.9", "gone", now_, out_);
  h_->on("client.9", follow{number_of(id)}, now_, out_);
  EXPECT_EQ(sent<said>().size(), 101u) << "on a new connection";
}

}  // namespace
}  // namespace troupe::control
