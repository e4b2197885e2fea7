// The cluster controller and the file that a job starts from, without a cluster: pieces arrive one
// at a time, and every refusal has a reason.
#include <gtest/gtest.h>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "tests/cluster/controller_orders.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

class controller_given : public testing::Test {
 protected:
  controller_given() {
    cluster_.name = "lab";
    node_spec s;
    s.name = "n1";
    s.address = "127.0.0.1:1";
    cluster_.nodes.push_back(s);
    h_.emplace(cluster_, "n1", std::uint16_t{7});
    h_->on("n1", join{"127.0.0.1:2", "same", protocol, abi_version, 1}, now_, out_);
    out_.clear();
  }
  template <class M>
  std::vector<M> sent() const {
    return messages_in<M>(out_);
  }
  template <class O>
  std::vector<O> ordered() const {
    return ordered_in<O>(out_);
  }
  static checked sound(std::uint64_t room = 1 << 20) {
    checked c;
    c.name = "tiny";
    c.plan_hash = "h";
    c.nodes = {"n1"};
    c.room = room;
    return c;
  }
  // Submits a valid job with a file. Afterwards the cluster controller requests the file.
  std::uint32_t submitted_with(std::uint64_t bytes, const std::string& client = "client.1", std::uint64_t room = 1 << 20) {
    out_.clear();
    h_->on(client, submit{{"job.toml", "text", {}}, true, 5, {given_file::checkpoint, "c.safetensors", bytes}}, now_, out_);
    const auto asked = ordered<check_text>();
    EXPECT_EQ(asked.size(), 1u);
    EXPECT_FALSE(asked.at(0).received) << "the job text is checked before the upload";
    out_.clear();
    h_->on_checked(asked.at(0).job, sound(room), now_, out_);
    return asked.at(0).job;
  }
  std::string refusal() const {
    const auto said = sent<submitted>();
    if (said.empty()) return "none";
    EXPECT_EQ(said.at(0).job, 0u);
    return said.at(0).messages.at(0);
  }

  cluster_spec cluster_;
  std::optional<cluster_controller> h_;
  orders out_;
  instant now_ = instant{} + 1000s;
};

TEST_F(controller_given, accepted_client_learns_what_runs_and_how_many_jobs_are_before_it) {
  const auto submit_one = [&] {
    out_.clear();
    h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
    const auto id = ordered<check_text>().at(0).job;
    auto c = sound();
    c.last_step = 500, c.steps_per_epoch = 40, c.batch = 64, c.head = {"net\ttiny: 9 parameters"};
    h_->on_checked(id, c, now_, out_);
    return sent<submitted>().at(0);
  };
  const auto first = submit_one();
  EXPECT_EQ(first.ahead, 0u);
  EXPECT_EQ(first.last_step, 500u);
  EXPECT_EQ(first.batch, 64u);
  EXPECT_EQ(first.head, std::vector<std::string>{"net\ttiny: 9 parameters"});
  EXPECT_EQ(submit_one().ahead, 1u);
  const auto third = submit_one();
  EXPECT_EQ(third.ahead, 2u);
  out_.clear();
  h_->on("client.2", follow{number_of(third.job)}, now_, out_);
  EXPECT_EQ(sent<submitted>().at(0).ahead, 2u) << "a client that attaches learns the same";
  EXPECT_EQ(sent<submitted>().at(0).steps_per_epoch, 40u);
}

TEST_F(controller_given, a_file_is_uploaded_in_pieces_and_checked_with_the_job) {
  const std::string file(100000, 'x');
  const auto id = submitted_with(file.size());
  std::string got;
  while (got.size() < file.size()) {
    const auto asked = sent<fetch>();
    ASSERT_EQ(asked.size(), 1u) << "one piece at a time";
    EXPECT_EQ(asked[0].offset, got.size());
    EXPECT_EQ(asked[0].job, id);
    out_.clear();
    h_->on("client.1", piece{id, got.size(), file.size(), file.substr(got.size(), piece_bytes), {}}, now_, out_);
    EXPECT_TRUE(sent<fetch>().empty()) << "the next piece is requested after the last is written";
    const auto kept = ordered<keep_piece>();
    ASSERT_EQ(kept.size(), 1u);
    EXPECT_EQ(kept[0].offset, got.size());
    got += kept[0].bytes;
    out_.clear();
    h_->on_piece_kept(id, {}, now_, out_);
  }
  EXPECT_EQ(got, file);
  const auto again = ordered<check_text>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].received);
  EXPECT_EQ(again[0].given.file, "c.safetensors");
  EXPECT_TRUE(sent<submitted>().empty());
  out_.clear();
  auto c = sound();
  c.continued = true;
  c.from = 17;
  h_->on_checked(id, c, now_, out_);
  EXPECT_EQ(sent<submitted>().at(0).job, id);
  const auto p = sent<prepare>();
  ASSERT_EQ(p.size(), 1u);
  EXPECT_TRUE(p[0].continued);
  EXPECT_EQ(p[0].from, 17u);
  out_.clear();
  h_->on("n1", prepared{id, "no"}, now_, out_);
  h_->on("n1", ended{id, 0}, now_, out_);
  EXPECT_EQ(ordered<drop_given>().size(), 1u);
}

TEST_F(controller_given, a_refused_upload_has_a_reason_and_its_received_pieces_are_dropped) {
  submitted_with(2000, "client.1", 1000);
  EXPECT_EQ(refusal(), "c.safetensors: the file has 2000 bytes; a file of this job has at most 1000");
  auto id = submitted_with(1000);
  h_->on("client.1", piece{id, 0, 1000, {}, "it is gone"}, now_, out_);
  EXPECT_EQ(refusal(), "c.safetensors: it is gone");
  for (const auto& [offset, bytes] : {std::pair{7u, 10u}, {0u, 1001u}, {0u, 0u}}) {
    id = submitted_with(1000);
    h_->on("client.1", piece{id, offset, 1000, std::string(bytes, 'x'), {}}, now_, out_);
    EXPECT_EQ(refusal(), "c.safetensors: upload rejected: chunk offset or size does not match the announced file");
    EXPECT_EQ(ordered<drop_given>().size(), 1u);
    EXPECT_TRUE(ordered<keep_piece>().empty());
  }
  id = submitted_with(1000);
  h_->on("client.1", piece{id, 0, 1000, std::string(500, 'x'), {}}, now_, out_);
  h_->on_piece_kept(id, unexpected(error("no space left")), now_, out_);
  EXPECT_EQ(refusal(), "c.safetensors: n1 cannot store it: no space left");
  id = submitted_with(500);
  h_->on("client.1", piece{id, 0, 500, std::string(500, 'x'), {}}, now_, out_);
  h_->on_piece_kept(id, {}, now_, out_);
  out_.clear();
  checked damaged;
  damaged.messages = {"c.safetensors: damaged"};
  h_->on_checked(id, damaged, now_, out_);
  EXPECT_EQ(refusal(), "c.safetensors: damaged");
  EXPECT_EQ(ordered<drop_given>().size(), 1u);
  out_.clear();
  h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5, {given_file::weights, "w", 0}}, now_, out_);
  EXPECT_EQ(refusal(), "w: the file is empty");
  out_.clear();
  h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5, {77, "w", 1}}, now_, out_);
  EXPECT_EQ(refusal(), "w: n1 knows only weights and checkpoints");
}

TEST_F(controller_given, an_upload_ends_when_its_client_disconnects_or_is_silent_for_60_s) {
  submitted_with(1000);
  out_.clear();
  h_->on_peer_down("client.1", "gone", now_, out_);
  EXPECT_EQ(ordered<drop_given>().size(), 1u);
  EXPECT_TRUE(sent<submitted>().empty());
  const auto id = submitted_with(1000, "client.2");
  out_.clear();
  h_->on("client.3", piece{id, 0, 1000, "x", {}}, now_, out_);
  EXPECT_TRUE(out_.empty()) << "a piece from another client is ignored";
  now_ += 59s;
  h_->on_tick(now_, out_);
  EXPECT_TRUE(out_.empty());
  now_ += 2s;
  h_->on_tick(now_, out_);
  EXPECT_EQ(refusal(), "c.safetensors: no piece of it was received for 60 s");
  out_.clear();
  h_->on("client.2", piece{id, 0, 1000, "x", {}}, now_, out_);
  h_->on_piece_kept(id, {}, now_, out_);
  EXPECT_TRUE(out_.empty());
}

TEST_F(controller_given, uploads_are_refused_over_the_limit_of_8_and_when_draining) {
  for (int i = 0; i < 8; ++i) submitted_with(1000, "client." + std::to_string(i));
  out_.clear();
  h_->on("client.9", submit{{"job.toml", "text", {}}, true, 5, {given_file::weights, "w", 10}}, now_, out_);
  EXPECT_EQ(refusal(), "files of 8 other jobs are being uploaded; try again later");
  out_.clear();
  h_->on("client.8", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
  const auto late = ordered<check_text>().at(0).job;
  out_.clear();
  h_->drain(now_, out_);
  EXPECT_EQ(ordered<drop_given>().size(), 8u);
  EXPECT_EQ(sent<submitted>().size(), 9u);
  EXPECT_EQ(refusal(), "c.safetensors: n1 shuts down");
  out_.clear();
  h_->on_checked(late, sound(), now_, out_);
  EXPECT_TRUE(out_.empty()) << "the job has been refused already";
  EXPECT_TRUE(h_->drained());
  EXPECT_TRUE(h_->lost_by_draining().empty());
}

TEST_F(controller_given, a_checkpoint_that_draining_could_not_store_is_remembered) {
  h_->on("client.1", submit{{"job.toml", "text", {}}, true, 5}, now_, out_);
  const auto id = ordered<check_text>().at(0).job;
  h_->on_checked(id, sound(), now_, out_);
  h_->on("n1", prepared{id, {}}, now_, out_);
  h_->drain(now_, out_);
  h_->on_store_begun(id);
  h_->on_event({id, {4, checkpoint_event{}}}, now_, out_);
  h_->on_stored({id, kept_kind::checkpoint, {}, {}, "/c: no space left"}, now_, out_);
  h_->on_event({id, {4, done_event{.how = how_ended::stopped}}}, now_, out_);
  h_->on("n1", ended{id, 0}, now_, out_);
  EXPECT_TRUE(h_->drained());
  EXPECT_NE(h_->lost_by_draining().find("/c: no space left"), std::string::npos) << h_->lost_by_draining();
}

}  // namespace
}  // namespace troupe::control
