// Commands take a run, by its number, name or folder, wherever they take a job file, weights or a
// net.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "tests/apps/child.hpp"

namespace troupe::testing_apps {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class named_run : public command_test {
 protected:
  named_run() { ::setenv("TROUPE_RUNS", "runs", 1); }
  ~named_run() override { ::setenv("TROUPE_RUNS", "off", 1); }

  void train() const {
    const auto o = troupe({"train", "job.toml"});
    ASSERT_EQ(o.code, 0) << o.out << o.err;
  }
  // Runs without evaluation until the first step, and stops.
  void train_and_stop() const {
    child c(troupe_program(), {"train", "job.toml", "--json", "--set", "train.finish.steps=100000000", "--set", "eval.every=0"},
            folder_);
    std::string line;
    while (c.read_line(line) && line.find("\"step\"") == std::string::npos) {
    }
    c.send(SIGINT);
    c.wait();
    ASSERT_TRUE(fs::exists(folder_ / "runs/1-tiny/run.json"));
  }

  const std::string job = write("job.toml", tiny_job());
};

TEST_F(named_run, files_that_are_no_job_are_named_with_the_command_that_takes_them) {
  fs::create_directories(path("pictures"));
  for (const auto& [words, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"train", write("table.csv", "a,b\n1,2\n")}, "this is no job file; `troupe new --data "},
           {{"train", path("pictures")}, "this is a folder, not a regular file; `troupe new --data "},
           {{"train", write("net.troupe", "x")}, "this is a net file, not a job file; `troupe predict`"},
           {{"train", write("w.safetensors", "x")}, "these are weights, not a job file; name the run"},
           {{"train", path("none.csv")}, "there is no such file"},
           {{"predict", path("w.safetensors"), "a.png"}, "these are weights"},
           {{"test", job, "--weights", path("table.csv")}, "this is no safetensors file: its header would have"},
           {{"serve", job}, "a job file has no weights: name a run"}}) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << words[1] << o.out;
    EXPECT_THAT(o.err, HasSubstr(said)) << words[1];
  }
}

TEST_F(named_run, stands_for_its_job_and_its_weights_in_every_command) {
  train();
  const std::vector<std::vector<std::string>> commands{{"data", "1"},
                                                       {"plan", "1"},
                                                       {"plan", "runs/1-tiny"},
                                                       {"time", "1", "--steps", "2"},
                                                       {"time", "job.toml", "--weights", "1", "--steps", "2"},
                                                       {"test", "1"},
                                                       {"test", "tiny"},
                                                       {"test", "job.toml", "--weights", "last"},
                                                       {"predict", "1", "--test"},
                                                       {"predict", "job.toml", "--weights", "1", "--test"},
                                                       {"export", "1", "--out", "net.troupe"},
                                                       {"sim", "1", "--nodes", "2", "--steps", "2"},
                                                       {"pack", "1", "--out", "data.pack"},
                                                       {"init", "1", "--out", "initial.safetensors"},
                                                       {"check", "1"},
                                                       {"check", "--resolved", "1"},
                                                       {"train", "1", "--no-run", "--set", "train.finish.steps=1"},
                                                       {"train", "job.toml", "--no-run", "--weights", "1"}};
  for (const auto& c : commands) {
    const auto o = troupe(c);
    EXPECT_EQ(o.code, 0) << testing::PrintToString(c) << "\n" << o.out << o.err;
  }
  EXPECT_EQ(troupe({"predict", "1", "--test"}).out,
            troupe({"predict", "job.toml", "--test", "--weights", "runs/1-tiny/best.safetensors"}).out);
}

TEST_F(named_run, is_served_as_its_net_file) {
  train();
  child c(troupe_program(), {"serve", "1", "--address", "127.0.0.1:0"}, folder_);
  std::string line;
  ASSERT_TRUE(c.read_line(line));
  EXPECT_THAT(line, HasSubstr("serves 1 at http://127.0.0.1:"));
  c.send(SIGINT);
  c.wait();
}

TEST_F(named_run, that_was_stopped_predicts_with_its_checkpoint_and_says_so) {
  train_and_stop();
  const auto o = troupe({"predict", "1", "--test"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("run 1 is not done (stopped at step "));
  EXPECT_THAT(o.err, HasSubstr("uses its newest checkpoint, "));
  const auto again = troupe({"train", "job.toml", "--no-run", "--resume", "1", "--set", "train.finish.steps=1"});
  EXPECT_THAT(again.err, testing::Not(HasSubstr("no run"))) << again.err;
}

TEST_F(named_run, gives_way_to_a_file_of_its_name) {
  train();
  write("1", "[job]\nname = \"other\"\n");
  const auto o = troupe({"data", "1"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, testing::StartsWith("1"));
  EXPECT_THAT(o.err, testing::Not(HasSubstr("no run")));
}

TEST_F(named_run, is_missing_in_an_error_that_names_files_and_runs) {
  train();
  for (const auto& words : std::vector<std::vector<std::string>>{{"data", "9"},
                                                                 {"train", "9"},
                                                                 {"check", "9"},
                                                                 {"unroll", "9", "--out", "x.safetensors"},
                                                                 {"serve", "9"},
                                                                 {"test", "job.toml", "--weights", "9"},
                                                                 {"train", "job.toml", "--resume", "9"}}) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << testing::PrintToString(words);
    EXPECT_THAT(o.err, HasSubstr("there is no file '9', and no run: there is no run '9'")) << testing::PrintToString(words);
    EXPECT_THAT(o.err, HasSubstr("1-tiny")) << testing::PrintToString(words);
  }
  for (const char* command : {"test", "sample", "predict"}) {
    auto words = std::vector<std::string>{command, "job.toml"};
    if (words[0] == "predict") words.emplace_back("--test");
    EXPECT_THAT(troupe(words).err, HasSubstr("a job file has no weights: add --weights FILE, or name a run")) << command;
  }
}

TEST_F(named_run, is_looked_for_in_run_dir_when_its_weights_go_to_a_cluster) {
  ASSERT_EQ(troupe({"train", "job.toml", "--run-dir", "others", "--set", "checkpoint.every=10"}).code, 0);
  for (const char* option : {"--weights", "--resume"}) {
    const auto o = troupe({"train", "job.toml", option, "1", "--run-dir", "others", "--cluster", "missing.toml"});
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, testing::StartsWith("missing.toml")) << option;
  }
  EXPECT_THAT(troupe({"train", "job.toml", "--run-dir", "others", "--cluster", "missing.toml"}).err,
              HasSubstr("--run-dir: not supported with --cluster"));
}

// --- the REPL of a run that ends

TEST_F(named_run, is_stopped_by_its_repl_which_prints_step_and_checkpoint) {
  for (const bool json : {false, true}) {
    child c(troupe_program(), {"train", "job.toml", "--json", "--set", "train.finish.steps=100000000"}, folder_);
    std::string line;
    while (c.read_line(line) && line.find("\"step\"") == std::string::npos) {
    }
    c.read_no_more();
    std::vector<std::string> words{"repl", "last", "-c", "stop"};
    if (json) words.emplace_back("--json");
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    EXPECT_THAT(o.out, HasSubstr(json ? "\"state\":\"stopped\"" : " stopped at step "));
    EXPECT_THAT(o.out, HasSubstr(json ? "\"file\":" : ", checkpoint in "));
    c.wait();
  }
}

TEST_F(named_run, is_killed_by_its_repl_which_says_so) {
  child c(troupe_program(), {"train", "job.toml", "--json", "--set", "train.finish.steps=100000000"}, folder_);
  std::string line;
  while (c.read_line(line) && line.find("\"step\"") == std::string::npos) {
  }
  c.read_no_more();
  const auto o = troupe({"repl", "1", "-c", "kill"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_THAT(o.out, HasSubstr("job 1 killed at step "));
  EXPECT_EQ(c.wait().code, 1);
}

// --- addresses that cannot be served

class taken_port {
 public:
  taken_port() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&a), size), 0);
    EXPECT_EQ(::listen(fd_, 1), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&a), &size), 0);
    port = std::to_string(ntohs(a.sin_port));
  }
  ~taken_port() { ::close(fd_); }
  taken_port(const taken_port&) = delete;
  taken_port& operator=(const taken_port&) = delete;
  std::string port;

 private:
  int fd_;
};

TEST_F(named_run, is_not_made_when_its_port_is_in_use) {
  const taken_port taken;
  for (const auto* option : {"--page", "--metrics"}) {
    const auto o = troupe({"train", "job.toml", option, taken.port});
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_THAT(o.err, HasSubstr("is already in use: name another port, or port 0 for any free one"));
    EXPECT_FALSE(fs::exists(folder_ / "runs/1-tiny")) << option;
  }
  EXPECT_EQ(troupe({"train", "job.toml", "--page", "10.0.0.1:7800"}).code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "runs/1-tiny"));
}

TEST_F(named_run, stays_as_it_was_when_its_port_is_in_use) {
  train_and_stop();
  const taken_port taken;
  const auto o = troupe({"resume", "1", "--metrics", taken.port});
  EXPECT_EQ(o.code, 2) << o.out;
  EXPECT_THAT(troupe({"runs", "show", "1"}).out, HasSubstr("stopped"));
}

}  // namespace
}  // namespace troupe::testing_apps
