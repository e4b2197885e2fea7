// Traces and diagnoses of a cluster, made by a client that reads the records of all daemons.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "actors/control/client/cluster_recording.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/error_text.hpp"
#include "tests/trace_reader.hpp"

namespace troupe::testing_cluster {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class cluster_trace : public cluster_test {
 protected:
  void SetUp() override { make_cluster(3); }
  cluster_spec cluster() const { return read_cluster_file(path("cluster.toml")).value(); }
  process& troupe(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), std::string(TROUPE_BIN_DIR) + "/troupe");
    programs_.push_back(std::make_unique<process>(arguments, folder_));
    return *programs_.back();
  }
  std::vector<std::unique_ptr<process>> programs_;
};

TEST_F(cluster_trace, has_the_roles_and_links_of_all_nodes) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 3)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  const auto file = path("run.pftrace");
  auto trace = cluster_recording::start(file, cluster());
  ASSERT_TRUE(trace) << test::error_text(trace);
  ASSERT_TRUE(b->wait_event("step", 20s, 200));
  const auto written = (*trace)->stop();
  ASSERT_TRUE(written) << test::error_text(written);
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_EQ(b->join().outcome.exit_code(), 0);

  const auto t = testing_trace::trace_reader::read(file);
  std::set<std::string> nodes, links;
  for (const auto& [id, track] : t.tracks) {
    if (track.process) nodes.insert(track.name);
    if (track.parent != 0 && t.tracks.at(track.parent).name == "links") links.insert(track.name);
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"n1", "n2", "n3", "links"}));
  for (const char* link : {"n1 to n2", "n2 to n1", "n1 to n3", "n3 to n1", "n2 to n3", "n3 to n2"})
    EXPECT_TRUE(links.contains(link)) << link;
  EXPECT_GT(written->activities, 1000u);
  ASSERT_EQ(written->notes.size(), 1u) << testing::PrintToString(written->notes);
  EXPECT_THAT(written->notes[0], HasSubstr("clocks are aligned to "));
}

TEST_F(cluster_trace, is_written_while_train_follows_a_job) {
  start_all();
  write("job.toml", tiny_job());
  auto& train = troupe({"train", path("job.toml"), "--cluster", path("cluster.toml"), "--trace", path("t.pftrace"), "--set",
                        "topology.workers_per_group=3"});
  EXPECT_EQ(train.wait(), 0) << train.log();
  EXPECT_THAT(train.log(), HasSubstr("trace " + path("t.pftrace") + ": "));
  const auto t = testing_trace::trace_reader::read(path("t.pftrace"));
  std::set<std::string> roles;
  for (const auto& [id, track] : t.tracks) roles.insert(track.name);
  for (const char* role : {"coordinator", "worker0/loader", "worker1/loader", "worker2/loader"})
    EXPECT_TRUE(roles.contains(role)) << role;
}

TEST_F(cluster_trace, is_started_and_stopped_in_the_repl_of_a_cluster) {
  start_all();
  auto b = begin(tiny_job(), endless(workers(3, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  auto& repl = troupe({"repl", "--cluster", path("cluster.toml"), "--json", "-c", "trace stop; quit"});
  EXPECT_EQ(repl.wait(), 1);
  EXPECT_THAT(repl.out(), HasSubstr("no trace is being written"));
  auto& more = troupe({"repl", "--cluster", path("cluster.toml"), "-c",
                       "trace start " + path("a.pftrace") + "; checkpoint; trace stop; trace last " + path("b.pftrace")});
  EXPECT_EQ(more.wait(), 0) << more.out() << more.log();
  for (const char* file : {"a.pftrace", "b.pftrace"})
    EXPECT_GT(testing_trace::trace_reader::read(path(file)).tracks.size(), 10u) << file;
  EXPECT_EQ(ask("n1", "trace start x").how, repl_reply::kind::failed) << "a daemon writes no files of clients";
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  b->join();
}

TEST_F(cluster_trace, says_which_node_it_lacks) {
  start("n1");
  start("n2");
  ASSERT_TRUE(joined("n1") && joined("n2"));
  auto b = begin(tiny_job(), workers(2, 1));
  auto trace = cluster_recording::start(path("run.pftrace"), cluster());
  ASSERT_TRUE(trace) << test::error_text(trace);
  EXPECT_EQ(b->join().outcome.exit_code(), 0);
  const auto written = (*trace)->stop();
  ASSERT_TRUE(written) << test::error_text(written);
  EXPECT_THAT(written->notes, testing::Contains(HasSubstr("node n3 is not in it: the daemon of node n3 does not answer")));
}

TEST_F(cluster_trace, diagnose_finds_nothing_when_a_job_runs_and_names_a_stopped_node) {
  start_all();
  auto& nothing = troupe({"diagnose", "--cluster", path("cluster.toml")});
  EXPECT_EQ(nothing.wait(), 0) << nothing.out() << nothing.log();
  EXPECT_THAT(nothing.out(), testing::StartsWith("no job runs (a job that is queued"));
  auto b = begin(tiny_job(), endless(workers(3, 3)));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  auto& fine = troupe({"diagnose", "--cluster", path("cluster.toml"), "--json"});
  EXPECT_EQ(fine.wait(), 0) << fine.out() << fine.log();
  const auto healthy = json::parse(fine.out(), nullptr, false);
  EXPECT_EQ(healthy["stuck"], false) << fine.out();
  EXPECT_GT(healthy["usual_step_seconds"], 0) << fine.out();
  EXPECT_GT(healthy["roles"], 10) << fine.out();

  for (const char* node : {"n3", "n1"}) {  // n1 coordinates
    daemon(node).signal(SIGSTOP);
    auto& stuck = troupe({"diagnose", "--cluster", path("cluster.toml"), "--json", "--trace", path("last.pftrace")});
    EXPECT_EQ(stuck.wait(), 1) << stuck.out() << stuck.log();
    daemon(node).signal(SIGCONT);
    const auto said = json::parse(stuck.out(), nullptr, false);
    EXPECT_EQ(said["silent"][0]["node"], node) << stuck.out();
    EXPECT_EQ(said["silent"][0]["needed"], true) << stuck.out();
    EXPECT_GT(testing_trace::trace_reader::read(path("last.pftrace")).tracks.size(), 10u);
    if (node == std::string("n3")) {
      ASSERT_TRUE(b->wait_event("step", 60s, 100));
    }
  }
  b->detach();
  b->join();
}

TEST_F(cluster_trace, diagnose_names_wrong_usage) {
  auto& none = troupe({"diagnose"});
  EXPECT_EQ(none.wait(), 2);
  EXPECT_THAT(none.log(), HasSubstr("give RUN or --cluster FILE"));
  auto& dead = troupe({"diagnose", "--cluster", path("cluster.toml")});
  EXPECT_EQ(dead.wait(), 1) << "no daemon runs";
  EXPECT_THAT(dead.log(), HasSubstr("no node answers"));
}

}  // namespace
}  // namespace troupe::testing_cluster
