// `troupe attach JOB` follows a job again after its client has left, by the job number that was
// printed.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "runtime/node/pki/authority.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

class cluster_attach : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(1);
    write("job.toml", tiny_job());
    start_all();
  }
  std::unique_ptr<process> troupe(std::vector<std::string> changes) {
    changes.insert(changes.begin(), std::string(TROUPE_BIN_DIR) + "/troupe");
    changes.insert(changes.end(), {"--cluster", path("cluster.toml")});
    return std::make_unique<process>(changes, folder_);
  }
  std::string hash_of(const std::string& file) const {
    const auto read = read_safetensors(path(file));
    return read ? weights_sha256(read->named) : std::string();
  }
  static std::string said_hash(const std::string& lines) {
    const std::string before = "weights_sha256 ";
    const auto at = lines.rfind(before);
    return at == std::string::npos ? std::string() : lines.substr(at + before.size(), 64);
  }
};

TEST_F(cluster_attach, attach_by_the_printed_number_follows_a_job_whose_client_left) {
  auto trains = troupe({"train", "job.toml", "--set", "train.finish.steps=100000000", "--set", "eval.every=100000000"});
  ASSERT_TRUE(trains->wait_out("examples/s", 30s)) << trains->log();
  trains->signal(SIGINT);
  EXPECT_EQ(trains->wait(20s), 0);
  EXPECT_NE(trains->log().find("detached: job 1 continues"), std::string::npos) << trains->log();
  EXPECT_NE(trains->log().find("troupe attach 1 --cluster " + path("cluster.toml")), std::string::npos) << trains->log();

  EXPECT_NE(trains->out().find("net         tiny: "), std::string::npos) << "the head of the run\n" << trains->out();
  EXPECT_NE(trains->out().find("\njob         1 on " + path("cluster.toml") + "\n"), std::string::npos) << trains->out();
  EXPECT_NE(trains->out().find("/100,000,000  loss "), std::string::npos) << "the last step is known\n" << trains->out();

  auto again = troupe({"attach", "1"});
  ASSERT_TRUE(again->wait_out("examples/s", 30s)) << again->log();
  EXPECT_NE(again->out().find("\njob         1 on "), std::string::npos) << again->out();
  again->signal(SIGINT);
  EXPECT_EQ(again->wait(20s), 0);
  EXPECT_NE(again->log().find("detached: job 1 continues"), std::string::npos) << again->log();

  auto last = troupe({"attach", "1", "--out", "last.safetensors", "--json"});
  ASSERT_TRUE(last->wait_out("\"event\":\"step\"", 30s)) << last->log();
  EXPECT_EQ(ask("n1", "stop 1").how, repl_reply::kind::ok);
  EXPECT_EQ(last->wait(30s), 0) << last->log();
  const auto& out = last->out();
  const auto done = nlohmann::json::parse(out.substr(out.rfind('\n', out.size() - 2) + 1), nullptr, false);
  EXPECT_EQ(done.value("event", ""), "done") << out;
  EXPECT_EQ(done.value("weights_sha256", "none"), hash_of("last.safetensors"));
}

TEST_F(cluster_attach, attach_to_a_finished_job_prints_its_result_and_fetches_its_weights) {
  auto trains = troupe({"train", "job.toml", "--out", "first.safetensors"});
  EXPECT_EQ(trains->wait(60s), 0) << trains->log();
  const auto hash = said_hash(trains->out());
  EXPECT_EQ(hash.size(), 64u) << trains->out();
  for (const bool restarted : {false, true}) {
    if (restarted) {
      kill_hard("n1");
      start("n1");
      ASSERT_TRUE(joined("n1"));
    }
    auto again = troupe({"attach", "1", "--out", "again.safetensors"});
    EXPECT_EQ(again->wait(30s), 0) << again->log();
    EXPECT_EQ(said_hash(again->out()), hash) << again->out();
    EXPECT_EQ(hash_of("again.safetensors"), hash);
    std::filesystem::remove(path("again.safetensors"));
  }
  // The coordinator keeps the weights of its newest jobs only.
  std::vector<std::filesystem::path> kept;
  for (const auto& e : std::filesystem::recursive_directory_iterator(path("state/n1")))
    if (e.path().filename() == "weights.safetensors") kept.push_back(e.path());
  EXPECT_EQ(kept.size(), 1u);
  for (const auto& file : kept) std::filesystem::remove(file);
  auto gone = troupe({"attach", "1", "--out", "again.safetensors"});
  EXPECT_EQ(gone->wait(30s), 1);
  EXPECT_NE(gone->log().find("there are no weights of this job"), std::string::npos) << gone->log();
}

TEST_F(cluster_attach, an_unknown_or_malformed_job_number_exits_2) {
  auto none = troupe({"attach", "7"});
  EXPECT_EQ(none->wait(20s), 2);
  EXPECT_NE(none->log().find("there is no job 7"), std::string::npos) << none->log();
  auto word = troupe({"attach", "seven"});
  EXPECT_EQ(word->wait(20s), 2);
}

TEST_F(cluster_attach, the_watch_role_may_follow_a_job_but_not_fetch_its_weights) {
  ASSERT_TRUE(add_operator_certificate(folder_ / "certs", "eve", certificate_role::watch));
  EXPECT_EQ(run(tiny_job()).outcome.exit_code(), 0);
  cluster_submission s;
  s.where = coordinator();
  s.where.tls_dir = operator_folder(folder_ / "certs", "eve").string();
  s.attach = 1;
  const auto followed = run_all(s);
  EXPECT_EQ(followed.outcome.exit_code(), 0);
  ASSERT_FALSE(followed.events.empty());
  EXPECT_TRUE(followed.events.back().event.is<done_event>());
  s.out = path("stolen.safetensors");
  const auto refused = run_all(s);
  EXPECT_EQ(refused.outcome.exit_code(), 1);
  ASSERT_FALSE(refused.outcome.messages.empty());
  EXPECT_NE(refused.outcome.messages.front().find("not allowed: fetch weights"), std::string::npos)
      << refused.outcome.messages.front();
  EXPECT_FALSE(std::filesystem::exists(s.out));
}

}  // namespace
}  // namespace troupe::testing_cluster
