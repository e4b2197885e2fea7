// Run folders of jobs on a cluster, and `troupe fetch` and `troupe jobs`.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class cluster_runs : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(2);
    write("job.toml", tiny_job());
    start_all();
  }
  std::unique_ptr<process> troupe(std::vector<std::string> changes, bool in_cluster = true) {
    changes.insert(changes.begin(), std::string(TROUPE_BIN_DIR) + "/troupe");
    if (in_cluster) changes.insert(changes.end(), {"--cluster", path("cluster.toml")});
    return std::make_unique<process>(changes, folder_);
  }
  std::string hash_in(const fs::path& file) const {
    const auto read = read_safetensors(file.string());
    return read ? weights_sha256(read->named) : "no weights in " + file.string();
  }
  run_info info(const std::string& name) const {
    auto read = read_run_info(folder_ / "state" / "n1" / "runs" / name);
    if (!read) ADD_FAILURE() << read.error().to_string();
    return read.has_value() ? *read : run_info{};
  }
  static std::uint64_t rows_of(const fs::path& file) {
    std::ifstream in(file);
    std::uint64_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  }
};

TEST_F(cluster_runs, a_job_leaves_a_run_folder_at_the_coordinator_and_its_weights_can_be_fetched) {
  const auto done = run(tiny_job(), workers(2, 2));
  ASSERT_EQ(done.outcome.how, cluster_outcome::end::done);
  const auto hash = done.text("weights_sha256");
  const auto folder = folder_ / "state" / "n1" / "runs" / "1-tiny";
  // The folder is complete a moment after the client's last event: fetch and jobs are answered by
  // other actors.
  auto fetched = troupe({"fetch", "1", "--out", "w.safetensors"});
  ASSERT_EQ(fetched->wait(20s), 0) << fetched->log();
  EXPECT_THAT(fetched->out(), HasSubstr("weights_sha256 " + hash));
  EXPECT_EQ(hash_in(path("w.safetensors")), hash);
  auto jobs = troupe({"jobs"});
  ASSERT_EQ(jobs->wait(20s), 0) << jobs->log();
  EXPECT_THAT(jobs->out(), HasSubstr("tiny"));
  daemon("n1").signal(SIGTERM);
  EXPECT_EQ(daemon("n1").wait(30s), 0);
  const auto r = info("1-tiny");
  EXPECT_EQ(r.state, "done");
  EXPECT_EQ(r.weights_sha256, hash);
  EXPECT_EQ(hash_in(folder / "last.safetensors"), hash);
  EXPECT_EQ(rows_of(folder / "metrics.csv"), 1 + done.count("step") + done.count("eval"));
  EXPECT_TRUE(fs::is_regular_file(folder / "job.toml") && fs::is_regular_file(folder / "curve.svg"));
  auto listed = troupe({"runs", "--run-dir", "state/n1/runs"}, false);
  EXPECT_EQ(listed->wait(20s), 0) << listed->log();
  EXPECT_THAT(listed->out(), HasSubstr("done"));
}

TEST_F(cluster_runs, fetch_says_why_there_are_no_weights) {
  auto none = troupe({"fetch", "7"});
  EXPECT_EQ(none->wait(20s), 2);
  EXPECT_THAT(none->log(), HasSubstr("there is no job 7"));
  auto trains = begin(tiny_job(), endless(workers(1, 1)));
  ASSERT_TRUE(trains->wait_event("step", 20s));
  auto early = troupe({"fetch", "1"});
  EXPECT_EQ(early->wait(20s), 2);
  EXPECT_THAT(early->log(), HasSubstr("there are no weights of this job"));
  EXPECT_FALSE(fs::exists(path("job-1.safetensors")));
  trains->detach();
}

TEST_F(cluster_runs, a_job_submitted_and_left_survives_its_coordinator_and_gives_the_weights_of_an_unbroken_run) {
  const std::vector<std::string> more{"train.finish.steps=4000", "eval.every=1000", "checkpoint.every=200"};
  auto set = workers(2, 2);
  set.insert(set.end(), more.begin(), more.end());
  const auto unbroken = run(tiny_job(), set);
  ASSERT_EQ(unbroken.outcome.how, cluster_outcome::end::done);

  std::vector<std::string> words{"train", "job.toml", "--json"};
  for (const auto& s : set) words.insert(words.end(), {"--set", s});
  auto trains = troupe(words);
  ASSERT_TRUE(trains->wait_out("\"event\":\"checkpoint\"", 30s)) << trains->log();
  trains->signal(SIGINT);
  EXPECT_EQ(trains->wait(20s), 0);
  kill_hard("n1");
  start("n1");
  ASSERT_TRUE(joined("n2", 30s));
  auto again = troupe({"attach", "2", "--json"});
  EXPECT_EQ(again->wait(120s), 0) << again->log();
  auto fetched = troupe({"fetch", "2", "--out", "w.safetensors"});
  ASSERT_EQ(fetched->wait(20s), 0) << fetched->log();
  EXPECT_EQ(hash_in(path("w.safetensors")), unbroken.text("weights_sha256"));
  daemon("n1").signal(SIGTERM);
  EXPECT_EQ(daemon("n1").wait(30s), 0);
  const auto r = info("2-tiny");
  EXPECT_EQ(r.state, "done");
  EXPECT_EQ(r.resumed_at.size(), 1U) << "the daemon was killed once";
  EXPECT_EQ(rows_of(folder_ / "state" / "n1" / "runs" / "2-tiny" / "metrics.csv") + r.not_recorded, 1U + 4000 + 4);
}

}  // namespace
}  // namespace troupe::testing_cluster
