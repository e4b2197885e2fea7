// `troupe doctor --cluster` with daemons.
#include <signal.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runtime/node/config/sim_file.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using nlohmann::json;

class cluster_doctor : public cluster_test {
 protected:
  struct outcome {
    int code = -1;
    std::vector<json> checks;
    std::string text;
  };
  outcome doctor(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {std::string(TROUPE_BIN_DIR) + "/troupe", "doctor", "--json", "--cluster", path("cluster.toml")});
    process p(more, folder_);
    outcome o;
    o.code = p.wait(90s);
    o.text = p.out() + p.log();
    std::istringstream lines(p.out());
    for (std::string line; std::getline(lines, line);) {
      auto parsed = json::parse(line, nullptr, false);
      EXPECT_TRUE(parsed.is_object()) << line;
      if (parsed.is_object() && parsed["event"] == "check") o.checks.push_back(std::move(parsed));
    }
    return o;
  }
  static json find(const outcome& o, const std::string& node, const std::string& name) {
    for (const auto& c : o.checks)
      if (c["node"] == node && c["name"] == name) return c;
    ADD_FAILURE() << "no check " << name << " of " << node << "\n" << o.text;
    return {{"state", ""}, {"value", ""}, {"text", ""}, {"try", ""}};
  }
  static std::string link(const std::string& from, const std::string& to) { return "link " + from + " to " + to; }
};

TEST_F(cluster_doctor, examines_all_nodes_and_all_links_both_ways) {
  machines_apart_ = true;
  make_cluster(3);
  start_all();
  const auto o = doctor({"--out", path("machine.toml")});
  for (const std::string node : {"n1", "n2", "n3"}) {
    EXPECT_EQ(find(o, node, "daemon")["state"], "ok") << o.text;
    EXPECT_EQ(find(o, node, "certificate " + node)["state"], "ok") << o.text;
    EXPECT_NE(find(o, node, "speed")["value"].get<std::string>().find("sgemm "), std::string::npos) << o.text;
    for (const std::string other : {"n1", "n2", "n3"}) {
      if (node == other) continue;
      const auto value = find(o, node, link(node, other))["value"].get<std::string>();
      EXPECT_NE(value.find("bit/s, "), std::string::npos) << value;
      EXPECT_NE(value.find(" round trip"), std::string::npos) << value;
    }
  }
  EXPECT_NE(o.code, 2) << o.text;
  const auto file = read_sim_file(path("machine.toml"));
  ASSERT_TRUE(file) << file.error().front().to_string();
  EXPECT_GT(file->network.bytes_per_second, 1e6);
  EXPECT_GT(file->compute.flops_per_second, 1e8);
  EXPECT_EQ(run(tiny_job(), workers(3, 3)).outcome.exit_code(), 0) << "the cluster trains after it";
}

TEST_F(cluster_doctor, names_a_stopped_daemon_within_a_bounded_time) {
  make_cluster(3);
  start_all();
  daemon("n3").signal(SIGSTOP);
  const auto begin = clock::now();
  const auto o = doctor();
  EXPECT_LT(since(begin), 40s);
  daemon("n3").signal(SIGCONT);
  EXPECT_EQ(o.code, 1) << o.text;
  const auto bad = find(o, "n3", "daemon");
  EXPECT_EQ(bad["state"], "fail");
  EXPECT_NE(bad["try"], "");
  EXPECT_EQ(find(o, "n1", "daemon")["state"], "ok") << o.text;
  find(o, "n1", link("n1", "n2"));
  find(o, "n2", link("n2", "n1"));
  for (const auto& c : o.checks) EXPECT_NE(c["name"], link("n1", "n3"));
}

TEST_F(cluster_doctor, does_not_disturb_a_job_unless_told_to) {
  make_cluster(2);
  start_all();
  const auto job = begin(tiny_job(), endless(workers(2, 2)));
  ASSERT_TRUE(job->wait_event("step", 30s, 5));
  const auto quiet = doctor();
  EXPECT_NE(find(quiet, "n2", "speed")["value"].get<std::string>().find("a job runs on this node"), std::string::npos)
      << quiet.text;
  const auto link_value = find(quiet, "n1", link("n1", "n2"))["value"].get<std::string>();
  EXPECT_NE(link_value.find("bandwidth not measured: a job runs"), std::string::npos) << link_value;
  EXPECT_NE(link_value.find(" round trip"), std::string::npos) << link_value;
  const auto busy = doctor({"--busy"});
  EXPECT_NE(find(busy, "n2", "speed")["value"].get<std::string>().find("sgemm "), std::string::npos) << busy.text;
  EXPECT_NE(find(busy, "n1", link("n1", "n2"))["value"].get<std::string>().find("bit/s"), std::string::npos) << busy.text;
  EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_EQ(job->join().outcome.exit_code(), 0);
}

TEST_F(cluster_doctor, needs_the_right_to_run_jobs) {
  make_cluster(1);
  start_all();
  EXPECT_NE(ask("n1", "_machine").text.find("usage: _machine TICKET"), std::string::npos);
  EXPECT_NE(ask("n1", "_link t n2").text.find("usage: _link TICKET PEER ADDRESS"), std::string::npos);
  process make(
      {std::string(TROUPE_BIN_DIR) + "/troupe", "certs", "add-client", "eve", "--role", "watch", "--cluster", path("cluster.toml")},
      folder_);
  ASSERT_EQ(make.wait(), 0) << make.log();
  std::filesystem::create_directory(path("eve"));
  std::filesystem::copy(path("certs/client.eve"), path("eve/client"));
  auto where = coordinator();
  where.tls_dir = path("eve");
  const auto refused = ask_at(where, "_machine t");
  EXPECT_EQ(refused.how, repl_reply::kind::failed);
  EXPECT_NE(refused.text.find("watch"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace troupe::testing_cluster
