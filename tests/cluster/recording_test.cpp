// A job that its daemons record is run again, also after moves and the loss of a node.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/control/client/client_link.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class cluster_recording_of_a_job : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(3);
    start_all();
  }
  static std::vector<std::string> recorded(std::vector<std::string> set) {
    set.insert(set.end(), {"job.record=true", "train.finish.steps=100000", "eval.every=0", "checkpoint.every=never"});
    return set;
  }
  // Runs `troupe replay JOB --cluster`, and returns the last event.
  json replay(const std::string& job, std::vector<std::string> more = {}, int code = 0) {
    std::vector<std::string> arguments{
        std::string(TROUPE_BIN_DIR) + "/troupe", "replay", job, "--cluster", path("cluster.toml"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    process p(arguments, folder_);
    EXPECT_EQ(p.wait(), code) << p.out() << p.log();
    said_ = p.log();
    json last = json::object();
    std::istringstream lines(p.out());
    for (std::string line; std::getline(lines, line);) last = json::parse(line);
    return last;
  }
  std::string stop(background& b) {
    EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    const auto end = b.join();
    EXPECT_EQ(end.outcome.exit_code(), 0);
    return end.text("weights_sha256");
  }
  std::string said_;
};

TEST_F(cluster_recording_of_a_job, replays_an_asynchronous_job_of_three_nodes) {
  auto set = recorded(workers(3, 2));
  set.emplace_back("train.sync={mode=\"downpour\"}");
  const auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 60));
  const auto weights = stop(*b);
  const auto all = replay("1");
  EXPECT_EQ(all["weights_sha256"], weights) << all;
  EXPECT_EQ(all["followed"], true) << all;
  EXPECT_EQ(replay("1", {"--to", "40"})["weights_sha256"], replay("1", {"--to", "40"})["weights_sha256"]);
}

TEST_F(cluster_recording_of_a_job, replays_every_plan_of_a_job_that_moved_and_lost_a_node) {
  auto set = recorded(workers(3, 2));
  set.emplace_back("train.dynamics.lr=0.001");
  const auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 30));
  ASSERT_EQ(ask("n1", "mode ssp staleness=2").how, repl_reply::kind::ok);
  ASSERT_EQ(ask("n1", "drain n2").how, repl_reply::kind::ok);
  ASSERT_TRUE(b->wait_event("moved", 20s));
  kill_hard("n3");
  ASSERT_TRUE(b->wait_event("recovered", 20s));
  const auto weights = stop(*b);
  start("n3");
  ASSERT_TRUE(joined("n3"));
  const auto all = replay("1");
  EXPECT_GE(all["plans"], 3) << all;
  EXPECT_EQ(all["weights_sha256"], weights) << all;
  EXPECT_THAT(said_, HasSubstr("the process on n3 did not end its log"));
  EXPECT_THAT(said_, Not(HasSubstr("no folder of"))) << "later plans have no roles on n2 and n3";
}

TEST_F(cluster_recording_of_a_job, is_refused_by_name_when_there_is_none) {
  EXPECT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
  EXPECT_THAT(replay("1", {}, 2)["message"].get<std::string>(), HasSubstr("no node has a recording of job 1"));
  EXPECT_THAT(replay("x", {}, 2)["message"].get<std::string>(), HasSubstr("number of one job"));
}

// The daemon that a client asks must not send other files.
TEST_F(cluster_recording_of_a_job, files_outside_the_recording_are_not_sent) {
  auto set = recorded(workers(2, 1));
  set[set.size() - 3] = "train.finish.steps=20";
  ASSERT_EQ(run(tiny_job(), set).outcome.exit_code(), 0);
  control::look wish;
  wish.recording_of = 1;
  auto link = client_link::open(address_of("n1"), 8s);
  ASSERT_TRUE(link);
  const auto answer = [&](const std::string& file) {
    wish.id++;
    wish.file = file;
    EXPECT_TRUE((*link)->send(wish).has_value());
    for (;;) {
      const auto m = (*link)->receive(8s);
      if (!m) return control::looked{};
      if (const auto* r = std::get_if<control::looked>(&*m); r && r->id == wish.id) return *r;
    }
  };
  const auto list = answer("");
  ASSERT_EQ(list.files.size(), 3u);
  EXPECT_FALSE(answer(list.files[0].name).bytes.empty());
  const auto job_folder = list.files[0].name.substr(0, list.files[0].name.find('/'));
  for (const auto& name :
       {std::string("journal"), std::string("../cluster.toml"), job_folder + "/weights.safetensors",
        job_folder + "/recording/../weights.safetensors", std::string("/etc/passwd"), list.files[0].name + "/../plan.json"}) {
    const auto r = answer(name);
    EXPECT_TRUE(r.bytes.empty()) << name;
    EXPECT_THAT(r.refusal, HasSubstr("no such recorded file")) << name;
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
