// `troupe doctor` on this machine: its output, its exit code and its files.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;

class doctor_command : public command_test {
 protected:
  nlohmann::json check(const std::vector<nlohmann::json>& list, const std::string& name) {
    for (const auto& o : list)
      if (o["name"] == name) return o;
    ADD_FAILURE() << "no check " << name;
    return {};
  }
};

TEST_F(doctor_command, prints_a_json_object_for_each_check_and_the_counts) {
  const auto o = troupe({"doctor", "--json", "--run-dir", path("runs"), "--out", path("machine.toml")});
  EXPECT_EQ(o.err, "");
  const auto all = objects(o.out);
  const auto checks = of_kind(all, "check");
  for (const char* name :
       {"processor", "blas", "speed", "memory", "clock", "disk runs", "limits", "network", "gpu", "runs database"}) {
    const auto c = check(checks, name);
    for (const char* key : {"state", "node", "value", "text", "try"}) EXPECT_TRUE(c[key].is_string()) << name << " " << key;
    EXPECT_EQ(c["state"] == "ok", c["try"] == "") << name;
  }
  ASSERT_FALSE(all.empty());
  const auto& done = all.back();
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["checks"], checks.size());
  EXPECT_EQ(done["ok"].get<int>() + done["warn"].get<int>() + done["fail"].get<int>(), done["checks"].get<int>());
  EXPECT_EQ(o.code, done["fail"] == 0 ? 0 : 1);

  const auto job = write("job.toml", tiny_job());
  const auto sim = troupe({"sim", job, "--nodes", "2", "--steps", "1", "--network", path("machine.toml")});
  EXPECT_EQ(sim.code, 0) << sim.err;
  const auto plan = troupe({"plan", job, "--set", "topology.workers_per_group=2", "--machine", path("machine.toml")});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("exchange of a step, at the rates of "), std::string::npos) << plan.out;
}

TEST_F(doctor_command, fits_80_columns_and_ends_with_the_counts) {
  const auto o = troupe({"doctor", "--run-dir", path("runs")});
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(o.out.find(" checks: "), std::string::npos) << o.out;
  EXPECT_FALSE(std::filesystem::exists(path("runs"))) << "nothing is made";
}

TEST_F(doctor_command, fails_with_the_next_command_when_the_database_of_runs_is_broken) {
  std::filesystem::create_directory(path("runs"));
  write("runs/runs.db", std::string(8192, 'x'));
  const auto o = troupe({"doctor", "--json", "--run-dir", path("runs")});
  EXPECT_EQ(o.code, 1);
  const auto c = check(of_kind(objects(o.out), "check"), "runs database");
  EXPECT_EQ(c["state"], "fail");
  EXPECT_NE(c["try"].get<std::string>().find("mv "), std::string::npos);
}

TEST_F(doctor_command, refuses_wrong_files_with_exit_2) {
  EXPECT_EQ(troupe({"doctor", "--cluster", path("none.toml")}).code, 2);
  const auto wrong = troupe({"doctor", "--cluster", write("bad.toml", "[cluster]\n")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("troupe check "), std::string::npos) << wrong.err;
  EXPECT_EQ(troupe({"doctor", "--out", path("no/such/folder/x.toml")}).code, 2);
  const auto plan = troupe({"plan", write("job.toml", tiny_job()), "--machine", write("empty.toml", "")});
  EXPECT_EQ(plan.code, 2);
  EXPECT_NE(plan.err.find("troupe doctor --cluster FILE --out"), std::string::npos) << plan.err;
}

// A cluster of four nodes of which none runs.
class train_by_machine : public doctor_command {
 protected:
  outcome train(const std::string& machine, std::vector<std::string> more = {"--set", "train.exchange.reducer=auto"}) {
    std::string cluster = "[cluster]\nname = \"lab\"\n[cluster.tls]\ndir = \"certs\"\n";
    for (const char* n : {"1", "2", "3", "4"})
      cluster += std::string("[[node]]\nname = \"n") + n + "\"\naddress = \"127.0.0.1:" + n + "\"\n";
    std::vector<std::string> words{"train",     write("job.toml", tiny_job()),
                                   "--cluster", write("cluster.toml", cluster),
                                   "--machine", write("machine.toml", machine),
                                   "--set",     "topology.workers_per_group=4",
                                   "--set",     "pipeline.packets=4"};
    words.insert(words.end(), more.begin(), more.end());
    return troupe(words);
  }
  static std::string rates(const std::string& bandwidth, const std::string& latency) {
    return "[network]\nfabric = \"star\"\nbandwidth = \"" + bandwidth + "\"\nlatency = \"" + latency + "\"\n";
  }
};

TEST_F(train_by_machine, chooses_another_reducer_when_the_network_is_another) {
  EXPECT_THAT(train(rates("100GB/s", "1s")).err, HasSubstr("reducer by the rates of " + path("machine.toml") + ": server\n"));
  EXPECT_THAT(train(rates("1kB/s", "1us")).err, HasSubstr("reducer by the rates of " + path("machine.toml") + ": sharded\n"));
}

TEST_F(train_by_machine, is_refused_when_it_would_choose_nothing) {
  const auto named = train(rates("1GB/s", "1us"), {});
  EXPECT_EQ(named.code, 2);
  EXPECT_THAT(named.err, HasSubstr("--machine: serves train.exchange.reducer = \"auto\"; the job has \"server\""));
  EXPECT_EQ(train("[disk]\nbandwidth = \"1GB/s\"\n").code, 2);
  const auto embedded = troupe({"train", write("job.toml", tiny_job()), "--machine", write("machine.toml", rates("1GB/s", "1us"))});
  EXPECT_EQ(embedded.code, 2);
  EXPECT_THAT(embedded.err, HasSubstr("give --cluster FILE"));
}

TEST_F(doctor_command, names_daemons_that_do_not_run_and_how_to_start_them) {
  const auto cluster = write("cluster.toml",
                             "[cluster]\nname = \"lab\"\n[cluster.tls]\ndir = \"certs\"\n"
                             "[[node]]\nname = \"n1\"\naddress = \"127.0.0.1:1\"\n");
  const auto bare = troupe({"doctor", "--json", "--cluster", cluster});
  EXPECT_EQ(bare.code, 1);
  EXPECT_NE(check(of_kind(objects(bare.out), "check"), "certificate client")["try"].get<std::string>().find("troupe init-cluster"),
            std::string::npos);
  ASSERT_EQ(troupe({"init-cluster", "--cluster", cluster}).code, 0);
  const auto o = troupe({"doctor", "--json", "--cluster", cluster});
  EXPECT_EQ(o.code, 1);
  const auto checks = of_kind(objects(o.out), "check");
  EXPECT_EQ(check(checks, "certificate client")["state"], "ok");
  EXPECT_EQ(check(checks, "certificate n1")["state"], "ok");
  const auto daemon = check(checks, "daemon");
  EXPECT_EQ(daemon["state"], "fail");
  EXPECT_EQ(daemon["node"], "n1");
  EXPECT_NE(daemon["try"], "");
}

}  // namespace
}  // namespace troupe
