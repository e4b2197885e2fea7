// `troupe repl` without a cluster, interrupted by signals at a terminal and in a script: the job's
// checkpoint is always saved.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/record/checkpoint.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "tests/apps/child.hpp"
#include "tests/apps/terminal.hpp"

namespace troupe::testing_apps {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class repl_signals_test : public command_test {
 protected:
  repl_signals_test() { write("job.toml", tiny_job()); }

  static constexpr const char* endless = "submit job.toml train.finish.steps=100000000 eval.every=100000000";
  const std::string prompt = "troupe> ";

  // A REPL with a running job that does not end by itself.
  std::unique_ptr<terminal> with_a_job() {
    auto t = std::make_unique<terminal>(std::vector<std::string>{troupe_program(), "repl"}, folder_);
    EXPECT_TRUE(t->shows(prompt)) << t->screen();
    t->type(std::string(endless) + "\n");
    EXPECT_TRUE(t->shows("job 1 queued") && t->shows(prompt)) << t->screen();
    return t;
  }
  bool runs(terminal& t) const {
    t.type("pause 1\n");
    return t.shows("job 1 paused at step ") && t.shows(prompt);
  }
  // Checks that the checkpoint is complete and that the printed command resumes it, for one step.
  void continues(const std::string& said) const {
    const auto read = load_checkpoint(path("tiny.checkpoint.safetensors"));
    ASSERT_TRUE(read) << said;
    const auto command = std::string(
        "troupe train job.toml --set train.finish.steps=100000000 --set eval.every=100000000 "
        "--resume tiny.checkpoint.safetensors");
    EXPECT_NE(said.find(command), std::string::npos) << said;
    const auto next = std::to_string(read->step + 1);
    const auto r = troupe({"train", "job.toml", "--set", "train.finish.steps=" + next, "--set", "eval.every=100000000", "--resume",
                           "tiny.checkpoint.safetensors"});
    EXPECT_EQ(r.code, 0) << r.err;
  }
};

TEST_F(repl_signals_test, ctrl_c_at_the_prompt_clears_the_line_and_the_job_continues) {
  auto t = with_a_job();
  ASSERT_TRUE(t->reads_keys());
  t->type(ctrl_c);
  ASSERT_TRUE(t->shows(prompt)) << t->screen();
  ASSERT_TRUE(t->reads_keys());
  t->type("half a li");
  ASSERT_TRUE(t->shows("half a li")) << t->screen();
  t->type(ctrl_c);
  ASSERT_TRUE(t->shows(prompt)) << t->screen();
  EXPECT_TRUE(runs(*t)) << "the cleared line is part of the next one: " << t->screen();
  t->type("quit\n");
  EXPECT_EQ(t->wait(), 0) << t->screen();
  continues(t->screen());
}

TEST_F(repl_signals_test, ctrl_c_ends_a_command_that_follows_the_job) {
  auto t = with_a_job();
  t->type("watch loss\n");
  ASSERT_TRUE(t->shows("  mean ")) << t->screen();
  ASSERT_TRUE(t->shows("  mean ")) << t->screen();
  t->type(ctrl_c);
  ASSERT_TRUE(t->shows(prompt)) << t->screen();
  EXPECT_TRUE(runs(*t)) << t->screen();
  ASSERT_TRUE(t->reads_keys());
  t->type(ctrl_d);
  EXPECT_EQ(t->wait(), 0) << t->screen();
  continues(t->screen());
}

TEST_F(repl_signals_test, sigterm_and_sighup_save_the_job) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    auto t = with_a_job();
    t->type("watch loss\n");
    ASSERT_TRUE(t->shows("loss")) << t->screen();
    t->send(signal);
    EXPECT_EQ(t->wait(), 128 + signal) << t->screen();
    continues(t->screen());
    fs::remove(path("tiny.checkpoint.safetensors"));
  }
}

// `timeout` sends its signal to its child and then to the child's group.
TEST_F(repl_signals_test, a_signal_that_comes_twice_saves_the_job) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    child c(troupe_program(), {"repl", "-c", std::string(endless) + "; watch loss"}, folder_);
    std::string line;
    do ASSERT_TRUE(c.read_line(line));
    while (line.find("loss") == std::string::npos);
    c.send(signal);
    c.send(signal);
    const auto r = c.wait();
    EXPECT_EQ(r.code, 128 + signal) << r.err;
    continues(r.err);
    fs::remove(path("tiny.checkpoint.safetensors"));
  }
}

TEST_F(repl_signals_test, the_checkpoint_goes_to_the_folder_that_the_job_names) {
  write("job.toml", tiny_job("[checkpoint]\ndir = \"" + path("kept") + "\"\n"));
  child c(troupe_program(), {"repl", "-c", std::string(endless) + "; watch loss"}, folder_);
  std::string line;
  do ASSERT_TRUE(c.read_line(line));
  while (line.find("loss") == std::string::npos);
  c.send(SIGTERM);
  EXPECT_EQ(c.wait().code, 143);
  EXPECT_TRUE(newest_in(runs_of(checkpoint_home(path("kept"), "tiny"))).newest);
  EXPECT_FALSE(fs::exists(path("tiny.checkpoint.safetensors")));
}

// One step of this job takes minutes, and the checkpoint is written after the step.
TEST_F(repl_signals_test, ctrl_c_while_the_job_is_saved_exits_at_once) {
  write("long.toml", R"([job]
name = "long"
[data]
source = "synthetic"
shape = [1, 32, 32]
classes = 4
examples = 8192
batch = 8192
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 256
kernel = 5
[[layer]]
name = "conv2"
type = "convolution"
inputs = ["conv1"]
outputs = 256
kernel = 5
[[layer]]
name = "ip"
type = "linear"
inputs = ["conv2"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip", "label"]
[train]
dynamics = { rule = "sgd", lr = 0.001 }
finish = { steps = 100 }
[pipeline]
packets = 1024
)");
  terminal t({troupe_program(), "repl"}, folder_);
  ASSERT_TRUE(t.shows(prompt)) << t.screen();
  t.type("submit long.toml\n");
  ASSERT_TRUE(t.shows("job 1 queued") && t.shows(prompt)) << t.screen();
  t.type("quit\n");
  ASSERT_TRUE(t.shows("Ctrl-C exits without it")) << t.screen();
  t.type(ctrl_c);
  EXPECT_EQ(t.wait(), 130) << t.screen();
  EXPECT_FALSE(fs::exists(path("long.checkpoint.safetensors")));
}

TEST_F(repl_signals_test, ctrl_c_ends_the_commands_of_option_c_and_saves_a_checkpoint) {
  child c(troupe_program(), {"repl", "-c", std::string(endless) + "; watch loss; nonsense"}, folder_);
  std::string line;
  do ASSERT_TRUE(c.read_line(line));
  while (line.find("loss") == std::string::npos);
  c.send(SIGINT);
  const auto r = c.wait();
  EXPECT_EQ(r.code, 130) << r.err;
  EXPECT_EQ(r.err.find("nonsense"), std::string::npos) << "commands after the signal were executed: " << r.err;
  continues(r.err);
}

TEST_F(repl_signals_test, ctrl_c_ends_a_waiting_script_and_saves_a_checkpoint) {
  ASSERT_EQ(mkfifo(path("script").c_str(), 0600), 0);
  const int script = open(path("script").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(script, 0);
  child c("/bin/sh", {"-c", "exec " + troupe_program() + " repl < script"}, folder_);
  const auto lines = std::string(endless) + "\nwatch loss 3\n";
  ASSERT_EQ(::write(script, lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  std::string line;
  for (int losses = 0; losses < 3; losses += line.find("loss") == std::string::npos ? 0 : 1) ASSERT_TRUE(c.read_line(line));
  c.send(SIGINT);
  const auto r = c.wait();
  close(script);
  EXPECT_EQ(r.code, 130) << r.err;
  continues(r.err);
}

}  // namespace
}  // namespace troupe::testing_apps
