// Jobs on three real daemons: the same bits as the embedded run, bytes sent between nodes, and a
// queue of jobs.
#include "actors/embedded.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/cluster/embedded_hash.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_run : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(3);
    start_all();
  }
};

TEST_F(cluster_run, three_daemons_train_to_the_bits_of_the_embedded_run) {
  const auto alone = embedded_hash(tiny_job(), {});
  for (const auto& set : {workers(3, 2), workers(2, 1), workers(1, 3)}) {
    const auto r = run(tiny_job(), set, path("w.safetensors"));
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_EQ(r.outcome.exit_code(), 0);
    ASSERT_FALSE(r.events.empty());
    EXPECT_TRUE(r.events.back().event.is<done_event>());
    EXPECT_EQ(r.text("weights_sha256"), alone);
    EXPECT_GT(r.value("tcp_bytes"), 100000) << "roles ran on more than one node";
    EXPECT_EQ(r.value("steps"), 40);
    EXPECT_EQ(r.count("eval"), 2u);
    EXPECT_EQ(r.count("step"), 40u) << "no step event was dropped";
    const auto file = read_safetensors(path("w.safetensors"));
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(weights_sha256(file->named), alone);
  }
}

// Blocks of 32 elements on three nodes, with adam: a parameter message is at most three times as
// large as the parameters.
TEST_F(cluster_run, small_blocks_train_to_the_bits_of_the_embedded_run) {
  const std::string adam = "train.dynamics={rule=\"adam\",lr=0.01}";
  const auto alone = embedded_hash(tiny_job(), {adam});
  auto set = workers(3, 2);
  set.insert(set.end(), {adam, "topology.max_block=128"});
  const auto r = run(tiny_job(), set, path("w.safetensors"));
  ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  EXPECT_EQ(r.text("weights_sha256"), alone);
}

// The coordinator role checks weights before they are stored, as in one process.
TEST_F(cluster_run, weights_that_are_not_finite_fail_the_job_and_are_not_written) {
  auto set = workers(3, 2);
  set.insert(set.end(), {"train.dynamics.lr=1e300", "train.finish.steps=1"});
  const auto r = run(tiny_job(), set, path("w.safetensors"));
  EXPECT_EQ(r.outcome.how, cluster_outcome::end::failed);
  ASSERT_FALSE(r.outcome.messages.empty());
  EXPECT_NE(r.outcome.messages.front().find("' is not finite at step 1: nothing is stored"), std::string::npos)
      << r.outcome.messages.front();
  EXPECT_FALSE(std::filesystem::exists(path("w.safetensors")));
}

// Parameter gradients are sent in four bytes; placed_test.cpp tests activations in two.
TEST_F(cluster_run, a_bf16_job_trains_to_the_bits_of_the_embedded_run) {
  const std::string bf16 = "job.precision=\"bf16\"";
  const auto alone = embedded_hash(tiny_job(), {bf16});
  EXPECT_NE(alone, embedded_hash(tiny_job(), {}));
  for (auto set : {workers(3, 2), workers(2, 1)}) {
    set.push_back(bf16);
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_EQ(r.text("weights_sha256"), alone);
  }
}

// Examples and seeds are sent between nodes: only n1 has the data.
TEST_F(cluster_run, every_sampler_trains_to_the_bits_of_the_embedded_run) {
  const auto plain = embedded_hash(tiny_job(), {});
  for (const char* kind : {"served", "seeded", "replicate", "shard", "own_order"}) {
    auto set = workers(3, 2);
    set.push_back(std::string("train.sampler={ kind = \"") + kind + "\" }");
    set.emplace_back("eval.sampler={ kind = \"sample\", examples = 17 }");
    const auto r = run(tiny_job(), set);
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done)
        << kind << " " << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    EXPECT_EQ(r.text("weights_sha256"), embedded_hash(tiny_job(), set)) << kind;
    const bool order_of_shuffle = kind == std::string("served") || kind == std::string("seeded");
    EXPECT_EQ(r.text("weights_sha256") == plain, order_of_shuffle) << kind;
    EXPECT_EQ(r.count("eval"), 2u);
  }
}

TEST_F(cluster_run, queued_jobs_run_one_after_the_other) {
  std::vector<std::unique_ptr<background>> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(begin(tiny_job(), workers(3, 1)));
  std::set<std::string> hashes;
  std::set<std::uint32_t> ids;
  for (auto& j : jobs) {
    const auto r = j->join();
    ASSERT_EQ(r.outcome.how, cluster_outcome::end::done) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    hashes.insert(r.text("weights_sha256"));
    ids.insert(r.outcome.job);
  }
  EXPECT_EQ(hashes.size(), 1u);
  EXPECT_EQ(ids.size(), 4u);
}

TEST_F(cluster_run, an_error_in_the_job_is_returned_with_its_position) {
  auto text = tiny_job();
  text.replace(text.find("outputs = 16"), 12, "outpts = 16");
  const auto r = run(text);
  EXPECT_EQ(r.outcome.how, cluster_outcome::end::refused);
  EXPECT_EQ(r.outcome.exit_code(), 2);
  std::string all;
  for (const auto& m : r.outcome.messages) all += m + "\n";
  EXPECT_NE(all.find("job.toml:21:1: "), std::string::npos) << all;
  EXPECT_NE(all.find("did you mean 'outputs'"), std::string::npos) << all;
  EXPECT_EQ(run(std::string("[job]\nname = \"\0\"", 16)).outcome.exit_code(), 2) << "a NUL byte";
  EXPECT_EQ(run("[job]\nname = \"\xff\xfe\"\n").outcome.exit_code(), 2) << "bad UTF-8";
  EXPECT_EQ(run(tiny_job(), workers(5, 1)).outcome.exit_code(), 2) << "more workers than packets";
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
}

TEST_F(cluster_run, a_job_continues_when_its_client_detaches) {
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  b->detach();
  EXPECT_EQ(b->join().outcome.how, cluster_outcome::end::detached);
  EXPECT_NE(ask("n1", "status").text.find("running"), std::string::npos);
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_TRUE(daemon("n1").wait_log("is over: stopped", 20s));
}

}  // namespace
}  // namespace troupe::testing_cluster
