// The folder of a run: `troupe train`, `troupe resume`, and processes that are killed at random
// moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mount.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/apps/child.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_apps {
namespace {

namespace fs = std::filesystem;

class run_folder : public command_test {
 protected:
  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::vector<std::string> lines_of(const fs::path& file) {
    std::vector<std::string> list;
    std::istringstream in(content(file));
    for (std::string line; std::getline(in, line);) list.push_back(line);
    return list;
  }
  static nlohmann::json result(const outcome& o) {
    const auto list = objects(o.out);
    return list.empty() ? nlohmann::json::object() : list.back();
  }
  static std::string hash(const outcome& o) { return result(o).value("weights_sha256", std::string("none: ") + o.out + o.err); }
  // The result of a query, by the program sqlite3.
  std::string sql(const std::string& query) const {
    return child("/usr/bin/sqlite3", {path("runs/runs.db"), query}, folder_).wait().out;
  }
  run_info info(const std::string& folder) const {
    auto read = read_run_info(folder_ / "runs" / folder);
    if (!read) {
      ADD_FAILURE() << read.error().to_string();
      return {};
    }
    return *read;
  }
  outcome train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", path("job.toml"), "--json"});
    return troupe(more);
  }

  const std::string job = write("job.toml", tiny_job());
};

TEST_F(run_folder, has_everything_about_a_run_when_it_is_done) {
  const auto o = train({"--run-dir", "runs", "--set", "train.finish.steps=60", "--set", "eval.every=20"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto run = folder_ / "runs" / "1-tiny";
  EXPECT_EQ(result(o)["run"], fs::canonical(run).string());
  const auto r = info("1-tiny");
  EXPECT_EQ(r.state, "done");
  EXPECT_EQ(r.steps, 60U);
  EXPECT_EQ(r.weights_sha256, hash(o));
  EXPECT_EQ(r.overrides, (std::vector<std::string>{"train.finish.steps=60", "eval.every=20"}));
  EXPECT_THAT(r.started, testing::MatchesRegex("2...-..-..T..:..:..Z"));
  EXPECT_FALSE(r.ended.empty() || r.host.empty() || r.blas_kernel.empty() || r.version.empty());
  const auto metrics = lines_of(run / "metrics.csv");
  ASSERT_EQ(metrics.size(), 1U + 60 + 3);
  EXPECT_EQ(metrics[0], "step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss");
  EXPECT_EQ(sql("select count(*), min(step), max(step) from steps where run = 1"), "60|1|60\n");
  EXPECT_EQ(sql("select group_concat(step) from evaluations where run = 1"), "20,40,60\n");
  EXPECT_EQ(sql("select state, weights_sha256 from runs"), "done|" + r.weights_sha256 + "\n");
  EXPECT_TRUE(fs::is_regular_file(run / "curve.svg"));
  // The best weights have the accuracy that run.json names.
  const auto best =
      result(troupe({"test", (run / "job.toml").string(), "--json", "--weights", (run / "best.safetensors").string()}));
  EXPECT_DOUBLE_EQ(best.value("test_accuracy", -1.0), r.best_accuracy);
  const auto last =
      result(troupe({"test", (run / "job.toml").string(), "--json", "--weights", (run / "last.safetensors").string()}));
  EXPECT_EQ(last.value("weights_sha256", ""), r.weights_sha256);
}

TEST_F(run_folder, has_a_job_file_that_gives_the_same_weights_from_any_folder) {
  const auto o = train({"--run-dir", "runs", "--set", "train.finish.steps=40", "--set", "train.dynamics.lr=0.05"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto again = child(troupe_program(), {"train", path("runs/1-tiny/job.toml"), "--json"}, "/").wait();
  EXPECT_EQ(hash(again), hash(o));
}

TEST_F(run_folder, is_where_the_options_and_the_environment_say) {
  const auto in = [&](const std::string& variable, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"TROUPE_RUNS=" + variable, troupe_program(), "train", job, "--json", "--set", "train.finish.steps=4"});
    return child("/usr/bin/env", more, folder_).wait();
  };
  EXPECT_EQ(in("off", {}).code, 0);
  EXPECT_EQ(in("elsewhere", {"--no-run"}).code, 0);
  for (const auto& f : fs::directory_iterator(folder_)) EXPECT_EQ(f.path().filename(), "job.toml");
  EXPECT_EQ(in("elsewhere", {}).code, 0);
  EXPECT_TRUE(fs::is_directory(folder_ / "elsewhere" / "1-tiny"));
  EXPECT_EQ(in("elsewhere", {"--run-dir", "here", "--set", "job.name=\"a b/c\""}).code, 2);  // a name must not contain '/'
  EXPECT_FALSE(fs::exists(folder_ / "here"));                                                // no folder for a wrong job
  EXPECT_EQ(in("elsewhere", {"--run-dir", "here", "--set", "job.name=\"a b\""}).code, 0);
  EXPECT_TRUE(fs::is_directory(folder_ / "here" / "1-a_b"));
  EXPECT_EQ(in("", {}).code, 0);
  EXPECT_TRUE(fs::is_directory(folder_ / "runs" / "1-tiny"));
}

TEST_F(run_folder, gets_a_number_of_its_own_when_many_start_at_once) {
  std::vector<std::unique_ptr<child>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(std::make_unique<child>(
        troupe_program(), std::vector<std::string>{"train", job, "--json", "--run-dir", "runs", "--set", "train.finish.steps=4"},
        folder_));
  for (auto& c : all) EXPECT_EQ(c->wait().code, 0);
  for (int i = 1; i <= 8; ++i) EXPECT_EQ(info(std::to_string(i) + "-tiny").state, "done");
  EXPECT_EQ(sql("select count(distinct number), count(*) from runs where state = 'done'"), "8|8\n");
}

TEST_F(run_folder, refuses_a_folder_that_cannot_be_written_before_training) {
  write("runs", "a file");
  const auto o = train({"--run-dir", "runs"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(result(o).value("message", ""), testing::HasSubstr("--no-run makes none"));
}

TEST_F(run_folder, of_a_stopped_run_is_resumed_to_the_weights_of_an_unbroken_run) {
  const std::vector<std::string> set{"--set", "train.finish.steps=6000", "--set", "eval.every=500"};
  auto words = set;
  words.insert(words.end(), {"--no-run"});
  const auto unbroken = hash(train(words));
  words = {"train", job, "--json", "--run-dir", "runs", "--out", path("w.safetensors")};
  words.insert(words.end(), set.begin(), set.end());
  child c(troupe_program(), words, folder_);
  std::string line;
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(c.read_line(line)) << "no step " << i;
  c.send(SIGINT);
  const auto stopped = c.wait();
  EXPECT_EQ(stopped.code, 1) << "--out was not written";
  EXPECT_THAT(result(stopped).value("message", ""), testing::HasSubstr("troupe resume 1"));
  EXPECT_FALSE(fs::exists(path("w.safetensors")));
  EXPECT_EQ(info("1-tiny").state, "stopped");
  const auto at = info("1-tiny").steps;
  const auto on = troupe({"resume", "--run-dir", "runs", "--json", "--out", path("w.safetensors")});
  ASSERT_EQ(on.code, 0) << on.out << on.err;
  EXPECT_EQ(objects(on.out).front()["step"], at + 1);
  EXPECT_EQ(hash(on), unbroken);
  EXPECT_TRUE(fs::exists(path("w.safetensors")));
  EXPECT_EQ(info("1-tiny").state, "done");
  EXPECT_EQ(info("1-tiny").resumed_at, std::vector<std::uint64_t>{at});
  EXPECT_EQ(lines_of(path("runs/1-tiny/metrics.csv")).size(), 1U + 6000 + 12);
  EXPECT_EQ(sql("select count(*) from steps"), "6000\n");
  const auto again = troupe({"resume", "--run-dir", "runs"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, testing::HasSubstr("no run in this folder is unfinished"));
  EXPECT_THAT(troupe({"resume", "1", "--run-dir", "runs"}).err, testing::HasSubstr("the run is done, at step 6000"));
}

TEST_F(run_folder, cannot_be_resumed_while_a_process_writes_it) {
  child c(troupe_program(), {"train", job, "--json", "--run-dir", "runs", "--set", "train.finish.steps=1000000"}, folder_);
  std::string line;
  ASSERT_TRUE(c.read_line(line));
  EXPECT_EQ(info("1-tiny").state, "running");
  const auto o = troupe({"resume", "1", "--run-dir", "runs"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, testing::HasSubstr("a running process writes this run"));
  c.send(SIGINT);
  EXPECT_EQ(c.wait().code, 0);
}

TEST_F(run_folder, of_a_failed_run_says_why) {
  const auto o = train({"--run-dir", "runs", "--set", "train.dynamics.lr=1e30", "--set", "train.finish.steps=50"});
  EXPECT_EQ(o.code, 1);
  EXPECT_EQ(info("1-tiny").state, "failed");
  EXPECT_EQ(info("1-tiny").error, result(o).value("message", ""));
  EXPECT_TRUE(fs::is_directory(path("runs/1-tiny/post-mortem")));
}

TEST_F(run_folder, keeps_the_file_that_the_run_began_with_when_it_is_killed_before_a_checkpoint) {
  ASSERT_EQ(troupe({"init", job, "--out", path("w.safetensors"), "--set", "job.seed=9"}).code, 0);
  const std::vector<std::string> set{"--json", "--weights",   "w.safetensors", "--set", "train.finish.steps=3000",
                                     "--set",  "eval.every=0"};
  auto words = set;
  words.insert(words.begin(), {"train", job, "--no-run"});
  const auto unbroken = hash(troupe(words));
  words = set;
  words.insert(words.begin(), {"train", job, "--run-dir", "runs"});
  {
    child c(troupe_program(), words, folder_);
    std::string line;
    ASSERT_TRUE(c.read_line(line));
    c.send(SIGKILL);
    c.wait();
  }
  EXPECT_EQ(info("1-tiny").state, "interrupted");
  EXPECT_EQ(hash(troupe({"resume", "--run-dir", "runs", "--json"})), unbroken);
}

TEST_F(run_folder, on_a_full_disk_is_incomplete_and_the_run_keeps_its_weights_elsewhere) {
  fs::create_directories(path("runs"));
  fs::create_directories(path("second"));
  if (::mount("tmpfs", path("runs").c_str(), "tmpfs", 0, "size=200k") != 0)
    GTEST_SKIP() << "a file system cannot be mounted here: " << std::strerror(errno);
  const std::vector<std::string> words{
      "TMPDIR=" + path("second"), troupe_program(), "train",       job, "--run-dir", "runs", "--set",
      "train.finish.steps=6000",  "--set",          "eval.every=0"};
  auto with_out = words;
  with_out.insert(with_out.end(), {"--out", path("w.safetensors")});
  const auto saved = child("/usr/bin/env", with_out, folder_).wait();
  fs::remove_all(path("runs/1-tiny"));
  const auto alone = child("/usr/bin/env", words, folder_).wait();
  ::umount2(path("runs").c_str(), MNT_DETACH);
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_TRUE(fs::exists(path("w.safetensors")));
  EXPECT_THAT(saved.err, testing::HasSubstr("the run folder is incomplete: "));
  EXPECT_EQ(alone.code, 1) << "the weights are not where they belong";
  EXPECT_THAT(alone.err, testing::HasSubstr(path("second")));
}

// TROUPE_KILLS: number of processes that are killed; scripts/nightly uses 100.
TEST_F(run_folder, survives_processes_that_are_killed_at_random_moments) {
  const std::vector<std::string> set{"--set", "train.finish.steps=8000", "--set", "eval.every=200",
                                     "--set", "checkpoint.every=50",     "--json"};
  auto words = set;
  words.insert(words.begin(), {"train", job, "--no-run"});
  const auto unbroken = hash(troupe(words));
  words = set;
  words.insert(words.begin(), {"train", job, "--run-dir", "runs"});
  const auto kills = from_environment("TROUPE_KILLS", 12);
  std::mt19937 random(7);
  std::uint64_t done = 0, finished = 0;
  for (; done < kills; ++done) {
    const bool begun = find_run(folder_ / "runs", "1").has_value() && read_run_info(folder_ / "runs" / "1-tiny").has_value();
    const bool anew = !begun || info("1-tiny").state == "done";
    if (begun && anew) {
      ++finished;
      EXPECT_EQ(info("1-tiny").weights_sha256, unbroken);
    }
    if (anew) fs::remove_all(folder_ / "runs");
    child c(troupe_program(), anew ? words : std::vector<std::string>{"resume", "--run-dir", "runs", "--json"}, folder_);
    // A moment of the start, or of training after some steps.
    std::string line;
    const auto steps = random() % 3 == 0 ? 0 : random() % 700;
    c.read_line(line, std::chrono::milliseconds(random() % 120));
    for (std::uint64_t i = 0; i < steps && c.read_line(line); ++i) {
    }
    c.send(SIGKILL);
    c.wait();
    if (fs::exists(folder_ / "runs" / "runs.db")) {
      ASSERT_EQ(sql("pragma integrity_check"), "ok\n") << "after kill " << done;
    }
  }
  auto end = troupe({"resume", "--run-dir", "runs", "--json"});
  if (end.code == 2) end = troupe(words);  // killed before there was a run, or after its end
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(hash(end), unbroken);
  std::cout << kills << " kills, " << finished << " runs finished meanwhile, resumed at "
            << nlohmann::json(info("1-tiny").resumed_at).dump() << "\n";
}

}  // namespace
}  // namespace troupe::testing_apps
