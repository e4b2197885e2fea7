// The folder of a run: `troupe train`, `troupe resume`, and processes that are killed at random
// moments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <random>
#include <set>
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
  std::vector<std::string> lines_of(const fs::path& file) const {
    std::vector<std::string> list;
    std::istringstream in(file_text(file.string()));
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

  // The words after "troupe" of a command that a message has in backticks.
  static std::vector<std::string> command_in(const std::string& message) {
    const auto begin = message.find("`troupe "), end = message.find('`', begin + 1);
    std::vector<std::string> words;
    if (end == std::string::npos) return words;
    std::istringstream in(message.substr(begin + 8, end - begin - 8));
    for (std::string word; in >> word;) words.push_back(word);
    return words;
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

TEST_F(run_folder, of_a_resumed_run_has_the_overrides_of_the_resume) {
  child c(troupe_program(), {"train", job, "--json", "--run-dir", "runs", "--set", "train.finish.steps=100000000"}, folder_);
  std::string line;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(c.read_line(line)) << "no step " << i;
  c.send(SIGINT);
  c.wait();
  const auto before = file_text("runs/1-tiny/job.toml");
  const auto end = "train.finish.steps=" + std::to_string(info("1-tiny").steps + 3);
  const auto o = troupe({"resume", "1", "--run-dir", "runs", "--set", end, "--set", "train.dynamics.lr=0.0125"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(info("1-tiny").overrides, (std::vector<std::string>{"train.finish.steps=100000000", end, "train.dynamics.lr=0.0125"}));
  EXPECT_THAT(before, testing::Not(testing::HasSubstr("0.0125")));
  EXPECT_THAT(file_text("runs/1-tiny/job.toml"), testing::HasSubstr("0.0125"));
  ASSERT_EQ(train({"--run-dir", "runs"}).code, 0);
  EXPECT_THAT(troupe({"runs", "diff", "1", "2", "--run-dir", "runs"}).out, testing::HasSubstr("0.0125"));
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
  EXPECT_EQ(stopped.code, 130) << "--out was not written";
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

// A net without an accuracy: the lowest loss of an evaluation is the best.
TEST_F(run_folder, of_a_regression_names_the_evaluation_with_the_lowest_loss) {
  write("x.csv", "a,y\n1,2\n2,4\n3,6\n4,8\n");
  const auto file = write("regression.toml", R"(
[job]
name = "regression"
[data]
source = "csv"
path = "x.csv"
test_path = "x.csv"
targets = ["y"]
batch = 2
[[layer]]
name = "out"
type = "linear"
inputs = ["data"]
outputs = 1
[[layer]]
name = "loss"
type = "euclidean"
inputs = ["out", "label"]
[train]
dynamics = { rule = "sgd", lr = 0.02 }
finish = { steps = 40 }
[eval]
every = 10
)");
  const auto o = troupe({"train", file, "--json", "--run-dir", "runs"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto r = info("1-regression");
  EXPECT_EQ(std::to_string(r.best_step) + "\n", sql("select step from evaluations order by loss, step limit 1"));
  EXPECT_GT(r.best_step, 0u);
  EXPECT_EQ(r.best_accuracy, -1);
  const auto tested = objects(troupe({"test", file, "--json", "--weights", path("runs/1-regression/best.safetensors")}).out);
  const auto eval = std::find_if(tested.begin(), tested.end(), [](const auto& e) { return e.value("event", "") == "eval"; });
  ASSERT_NE(eval, tested.end());
  EXPECT_NEAR(eval->value("loss", -1.0), r.best_loss, 1e-6 + 1e-6 * r.best_loss);
  EXPECT_THAT(troupe({"runs", "show", "1", "--run-dir", "runs"}).out,
              testing::HasSubstr(" at step " + std::to_string(r.best_step)));
}

// The rate of the resumed part is 0: all of its evaluations are equal, and none is better.
TEST_F(run_folder, of_a_resumed_run_names_the_best_evaluation_of_all_its_steps) {
  const std::vector<std::string> set{"--set", "train.finish.steps=6000", "--set", "eval.every=10"};
  std::vector<std::string> words{"train", job, "--json", "--run-dir", "runs"};
  words.insert(words.end(), set.begin(), set.end());
  child c(troupe_program(), words, folder_);
  std::string line;
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(c.read_line(line)) << "no step " << i;
  c.send(SIGINT);
  c.wait();
  const auto before = info("1-tiny");
  ASSERT_EQ(before.state, "stopped");
  ASSERT_GE(before.best_accuracy, 0);
  const auto on = troupe({"resume", "--run-dir", "runs", "--set", "train.dynamics.lr=0", "--set",
                          "train.finish.steps=" + std::to_string(before.steps + 20)});
  ASSERT_EQ(on.code, 0) << on.out << on.err;
  const auto r = info("1-tiny");
  const auto first = sql("select step from evaluations order by accuracy desc, loss, step limit 1");
  EXPECT_EQ(std::to_string(r.best_step) + "\n", first);
  auto shown = on.out;
  std::erase(shown, ',');
  EXPECT_THAT(shown, testing::HasSubstr(" at step " + std::to_string(r.best_step) + "\n"));
}

TEST_F(run_folder, of_a_done_run_has_a_checkpoint_of_the_last_step_and_is_extended_by_resume) {
  const std::vector<std::string> longer{"--set", "train.finish.steps=80", "--set", "checkpoint.every=10"};
  auto words = longer;
  words.insert(words.end(), {"--no-run"});
  const auto unbroken = hash(train(words));
  ASSERT_EQ(train({"--run-dir", "runs", "--set", "checkpoint.every=10", "--set", "checkpoint.keep=9"}).code, 0);
  std::set<std::uint64_t> steps;
  for (const auto& file : checkpoint_files(path("runs/1-tiny/checkpoints"))) steps.insert(load_checkpoint(file).value().step);
  EXPECT_THAT(steps, testing::ElementsAre(10, 20, 30, 40));
  const auto done = troupe({"resume", "1", "--run-dir", "runs"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, testing::HasSubstr("--set train.finish.steps=80` extends it"));
  words = {"resume", "1", "--run-dir", "runs", "--json", "--set", "train.finish.steps=80"};
  const auto on = troupe(words);
  ASSERT_EQ(on.code, 0) << on.out << on.err;
  EXPECT_EQ(objects(on.out).front()["step"], 41);
  EXPECT_EQ(hash(on), unbroken);
  EXPECT_EQ(info("1-tiny").state, "done");
  EXPECT_EQ(info("1-tiny").steps, 80u);
  EXPECT_THAT(file_text("runs/1-tiny/job.toml"), testing::HasSubstr("80")) << "the next resume continues to the same end";
  EXPECT_EQ(troupe({"resume", "1", "--run-dir", "runs"}).code, 2) << "it is done again";
}

// Earlier versions wrote every key, also `measure` where no `patience` uses it.
TEST_F(run_folder, of_an_earlier_version_is_resumed_if_it_has_measure_without_patience) {
  ASSERT_EQ(train({"--run-dir", "runs", "--set", "checkpoint.every=10"}).code, 0);
  auto text = file_text("runs/1-tiny/job.toml");
  const std::string absent = "# measure: not set";
  ASSERT_NE(text.find(absent), std::string::npos) << text;
  text.replace(text.find(absent), absent.size(), "measure = \"auto\"");
  text.replace(0, text.find('\n'),
               "# Every key of the job with its value. A comment names a key that is not set, and what applies then.");
  write("runs/1-tiny/job.toml", text);
  const auto on = troupe({"resume", "1", "--run-dir", "runs", "--set", "train.finish.steps=60"});
  EXPECT_EQ(on.code, 0) << on.out << on.err;
  EXPECT_EQ(info("1-tiny").steps, 60u);
  EXPECT_THAT(file_text("runs/1-tiny/job.toml"), testing::HasSubstr(absent)) << "the text of this version";
}

TEST_F(run_folder, of_a_copied_run_leaves_the_checkpoints_of_the_original_alone) {
  ASSERT_EQ(train({"--run-dir", "runs", "--set", "checkpoint.every=10", "--set", "checkpoint.keep=2"}).code, 0);
  fs::copy(path("runs"), path("copies"), fs::copy_options::recursive);
  const auto before = checkpoint_files(path("runs/1-tiny/checkpoints"));
  ASSERT_EQ(before.size(), 2u);
  ASSERT_EQ(troupe({"resume", "1", "--run-dir", "copies", "--set", "train.finish.steps=80"}).code, 0);
  EXPECT_EQ(checkpoint_files(path("runs/1-tiny/checkpoints")), before);
  std::set<std::uint64_t> steps;
  for (const auto& file : checkpoint_files(path("copies/1-tiny/checkpoints"))) steps.insert(load_checkpoint(file).value().step);
  EXPECT_THAT(steps, testing::ElementsAre(70, 80));
  fs::remove_all(path("runs"));
  EXPECT_EQ(troupe({"resume", "1", "--run-dir", "copies", "--set", "train.finish.steps=90"}).code, 0);
}

// 20 steps are an epoch.
TEST_F(run_folder, of_a_done_run_is_extended_by_the_command_that_the_refusal_names) {
  struct finish {
    std::string epochs, steps;
    std::vector<std::string> more;  // words of the command that is refused
  };
  const std::vector<finish> all{{"2", "1000", {}},
                                {"2", "40", {}},
                                {"100", "40", {}},
                                {"2", "40", {"--set", "train.finish.steps=90"}},
                                {"3", "40", {"--set", "train.finish.epochs=1"}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& f = all[i];
    ASSERT_EQ(
        train({"--run-dir", "runs", "--set", "train.finish.epochs=" + f.epochs, "--set", "train.finish.steps=" + f.steps}).code, 0);
    const auto number = std::to_string(i + 1);
    std::vector<std::string> words{"resume", number, "--run-dir", "runs"};
    words.insert(words.end(), f.more.begin(), f.more.end());
    const auto refused = troupe(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, testing::HasSubstr("the run is done, at step " + std::to_string(info(number + "-tiny").steps)));
    const auto before = info(number + "-tiny").steps;
    const auto on = troupe(command_in(refused.err));
    EXPECT_EQ(on.code, 0) << refused.err << on.err;
    EXPECT_GT(info(number + "-tiny").steps, before) << refused.err;
  }
}

TEST_F(run_folder, of_a_run_that_ended_early_is_not_resumed_without_a_later_end) {
  ASSERT_EQ(
      train({"--run-dir", "runs", "--set", "train.finish.patience=1", "--set", "train.dynamics.lr=0", "--set", "eval.every=5"})
          .code,
      0);
  const auto before = info("1-tiny");
  ASSERT_EQ(before.state, "done");
  ASSERT_LT(before.steps, 40u);
  const auto o = troupe({"resume", "1", "--run-dir", "runs"});
  EXPECT_EQ(o.code, 2) << o.out;
  EXPECT_THAT(o.err, testing::HasSubstr("with patience = 1; `troupe resume 1 --run-dir runs --set train.finish.KEY=VALUE`"));
  EXPECT_EQ(info("1-tiny").ended, before.ended);
}

TEST_F(run_folder, of_a_done_run_without_a_checkpoint_does_not_go_back_to_the_one_that_it_began_from) {
  ASSERT_EQ(train({"--run-dir", "runs"}).code, 0);
  ASSERT_EQ(train({"--run-dir", "runs", "--resume", "1", "--set", "train.finish.steps=60", "--set", "checkpoint.every=never"}).code,
            0);
  ASSERT_TRUE(info("2-tiny").begun_from_checkpoint);
  const auto o = troupe({"resume", "2", "--run-dir", "runs", "--set", "train.finish.steps=80"});
  EXPECT_EQ(o.code, 2) << o.out;
  EXPECT_THAT(o.err, testing::HasSubstr("it has no checkpoint"));
}

TEST_F(run_folder, is_failed_when_the_job_of_a_resumed_run_cannot_be_written) {
  ASSERT_EQ(train({"--run-dir", "runs"}).code, 0);
  fs::create_directories(path("runs/1-tiny/job.toml.tmp"));  // where the file is written before it is renamed
  const auto o = troupe({"resume", "1", "--run-dir", "runs", "--set", "train.finish.steps=80"});
  EXPECT_EQ(o.code, 2) << o.out;
  EXPECT_EQ(info("1-tiny").state, "failed");
  EXPECT_THAT(info("1-tiny").error, testing::HasSubstr("job.toml"));
}

TEST_F(run_folder, has_no_event_twice_after_a_killed_run_was_resumed) {
  // Evaluations after the newest checkpoint are repeated.
  child c(troupe_program(),
          {"train", job, "--json", "--run-dir", "runs", "--set", "train.finish.steps=100000000", "--set", "eval.every=7", "--set",
           "checkpoint.every=100"},
          folder_);
  const auto evaluations = [&] {
    std::vector<int> list;
    for (const auto& line : lines_of(path("runs/1-tiny/events.jsonl")))
      if (const auto o = nlohmann::json::parse(line, nullptr, false); o.is_object() && o.value("event", "") == "eval")
        list.push_back(o["step"].get<int>());
    return list;
  };
  std::string line;
  while (evaluations().empty() || evaluations().back() % 100 < 30 || evaluations().back() < 130) ASSERT_TRUE(c.read_line(line));
  c.send(SIGKILL);
  c.wait();
  const auto newest = load_newest_checkpoint(path("runs/1-tiny/checkpoints")).newest.value().step;
  const auto end = std::to_string(newest + 200);
  ASSERT_EQ(troupe({"resume", "1", "--run-dir", "runs", "--set", "train.finish.steps=" + end}).code, 0);
  auto list = evaluations();
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  EXPECT_EQ(std::adjacent_find(list.begin(), list.end()), list.end());
}

// Root may write to a read-only folder, but not to a read-only file system.
TEST_F(run_folder, elsewhere_leaves_a_read_only_current_folder_alone) {
  const auto here = path("here");
  fs::create_directories(here);
  if (::mount("none", here.c_str(), "tmpfs", MS_RDONLY, nullptr) != 0) {
    if (::geteuid() == 0) GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
    fs::permissions(here, fs::perms::owner_read | fs::perms::owner_exec);
  }
  child c(troupe_program(), {"train", job, "--json", "--run-dir", path("runs")}, here);
  const auto o = c.wait();
  ::umount(here.c_str());
  fs::permissions(here, fs::perms::owner_all);
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(info("1-tiny").state, "done");
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
  EXPECT_EQ(c.wait().code, 130);
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
