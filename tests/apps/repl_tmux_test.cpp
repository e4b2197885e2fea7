// `troupe repl` in tmux, with the keys that a user presses and the screen that a user sees.
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "tests/apps/child.hpp"

namespace troupe::testing_apps {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A tmux server of its own, with one session that runs a REPL.
class repl_tmux_test : public command_test {
 protected:
  repl_tmux_test() { write("job.toml", tiny_job()); }
  ~repl_tmux_test() override {
    if (!started_.empty()) tmux({"kill-server"});
  }
  void SetUp() override {
    if (system("command -v tmux > /dev/null 2>&1") != 0) GTEST_SKIP() << "tmux is not installed";
  }

  outcome tmux(std::vector<std::string> words) const {
    words.insert(words.begin(), {"-S", path("tmux.sock"), "-f", "/dev/null"});
    return child("/usr/bin/tmux", words, folder_).wait();
  }
  // Starts a REPL with HOME in the test's folder. The session ends with it.
  void start(const std::string& name, const std::string& arguments = {}) {
    started_ = name;
    const auto command = "cd '" + folder_.string() + "' && HOME='" + folder_.string() + "' LC_ALL=C.UTF-8 TROUPE_RUNS=off exec '" +
                         troupe_program() + "' repl " + arguments;
    const auto r = tmux({"new-session", "-d", "-s", name, "-x", "150", "-y", "50", command});
    ASSERT_EQ(r.code, 0) << r.err;
    ASSERT_TRUE(shows("troupe> $")) << screen();
  }
  void keys(const std::vector<std::string>& list) const {
    std::vector<std::string> words = {"send-keys", "-t", started_};
    words.insert(words.end(), list.begin(), list.end());
    EXPECT_EQ(tmux(words).code, 0);
  }
  void type(const std::string& text) const { EXPECT_EQ(tmux({"send-keys", "-t", started_, "-l", text}).code, 0); }
  void enter(const std::string& text) const {
    type(text);
    keys({"Enter"});
  }
  // The screen without blank lines at its end.
  std::string screen() const {
    auto text = tmux({"capture-pane", "-p", "-t", started_}).out;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
  }
  // Waits until the screen matches. `$` is the end of the screen.
  bool shows(const std::string& pattern, std::chrono::seconds within = 60s) const {
    const std::regex wanted(pattern);
    for (const auto until = std::chrono::steady_clock::now() + within; std::chrono::steady_clock::now() < until;
         std::this_thread::yield())
      if (std::regex_search(screen() + (last_line_is_prompt() ? " " : ""), wanted)) return true;
    return false;
  }
  bool last_line_is_prompt() const { return screen().ends_with("troupe>"); }
  bool over(std::chrono::seconds within = 60s) const {
    for (const auto until = std::chrono::steady_clock::now() + within; std::chrono::steady_clock::now() < until;
         std::this_thread::yield())
      if (tmux({"has-session", "-t", started_}).code != 0) return true;
    return false;
  }
  void submit_endless() const {
    enter("submit job.toml train.finish.steps=100000000 eval.every=0");
    ASSERT_TRUE(shows("job 1 queued\ntroupe> $")) << screen();
  }

  std::string started_;
};

TEST_F(repl_tmux_test, ctrl_c_clears_the_line_and_does_not_leave) {
  start("clear");
  type("submit half a li");
  ASSERT_TRUE(shows("half a li$")) << screen();
  keys({"C-c"});
  ASSERT_TRUE(shows("\\^C\ntroupe> $")) << screen();
  keys({"C-c"});
  ASSERT_TRUE(shows("\\^C\ntroupe> \\^C\ntroupe> $")) << screen();
  enter("jobs");
  EXPECT_TRUE(shows("no jobs\ntroupe> $")) << screen();
  keys({"C-d"});
  EXPECT_TRUE(over()) << screen();
}

TEST_F(repl_tmux_test, ctrl_c_ends_watch_and_the_job_continues) {
  start("watch");
  submit_endless();
  enter("watch loss");
  ASSERT_TRUE(shows("loss [^ ]+  [0-9.e-]+  mean .*  steps ")) << screen();
  EXPECT_NE(screen().find("▁"), std::string::npos) << screen();
  const auto lines = [&] {
    const auto s = screen();
    return std::count(s.begin(), s.end(), '\n');
  };
  const auto before = lines();
  const auto first = screen();
  for (const auto until = std::chrono::steady_clock::now() + 30s; screen() == first && std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  EXPECT_NE(screen(), first) << "the line is redrawn";
  EXPECT_EQ(lines(), before) << "in its place: " << screen();
  keys({"C-c"});
  ASSERT_TRUE(shows("\ntroupe> $")) << screen();
  enter("pause");
  EXPECT_TRUE(shows("job 1 paused at step [0-9]+\ntroupe> $")) << screen();
  enter("kill");
  EXPECT_TRUE(shows("job 1 killed at step [0-9]+, without a checkpoint")) << screen();
  keys({"C-d"});
  EXPECT_TRUE(over()) << screen();
}

// One step of this job takes minutes, so the pause is not reached.
TEST_F(repl_tmux_test, ctrl_c_ends_the_waiting_for_an_outcome_and_not_the_command) {
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
  start("waiting");
  enter("submit long.toml");
  ASSERT_TRUE(shows("job 1 queued\ntroupe> $")) << screen();
  enter("pause");
  ASSERT_TRUE(shows("waiting for job 1 .Ctrl-C ends the waiting, not the command.")) << screen();
  keys({"C-c"});
  ASSERT_TRUE(shows("not waiting any more; the job still executes the command\n+troupe> $")) << screen();
  enter("kill");
  EXPECT_TRUE(shows("job 1 killed at step 0, without a checkpoint")) << screen();
  keys({"C-d"});
  EXPECT_TRUE(over()) << screen();
}

TEST_F(repl_tmux_test, tab_completes_commands_and_file_names) {
  write("a very long name.toml", tiny_job());
  start("tab");
  type("sub");
  keys({"Tab"});
  ASSERT_TRUE(shows("troupe> submit ?$")) << screen();
  type("jo");
  keys({"Tab"});
  ASSERT_TRUE(shows("troupe> submit job\\.toml ?$")) << screen();
  type("train.finish.st");
  keys({"Tab"});
  type("3");
  ASSERT_TRUE(shows("submit job\\.toml train\\.finish\\.steps=3$")) << screen();
  keys({"Enter"});
  ASSERT_TRUE(shows("job 1 done.*\ntroupe> $")) << "the prompt is drawn again: " << screen();
  type("submit a");
  keys({"Tab"});
  ASSERT_TRUE(shows("troupe> submit \"a very long name\\.toml\" ?$")) << screen();
  type("train.finish.steps=3");
  keys({"Enter"});
  EXPECT_TRUE(shows("job 2 done")) << screen();
}

TEST_F(repl_tmux_test, up_recalls_the_history_of_an_earlier_session) {
  start("first");
  enter("jobs");
  ASSERT_TRUE(shows("no jobs")) << screen();
  enter("quit");
  ASSERT_TRUE(over());
  struct stat s {};
  ASSERT_EQ(::stat(path(".troupe_history").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  start("second");
  keys({"Up", "Up"});
  ASSERT_TRUE(shows("troupe> jobs$")) << screen();
  keys({"Enter"});
  EXPECT_TRUE(shows("no jobs\ntroupe> $")) << screen();
  keys({"C-d"});
  EXPECT_TRUE(over());
}

TEST_F(repl_tmux_test, a_question_mark_shows_help) {
  start("help");
  enter("? set");
  EXPECT_TRUE(shows("set KEY VALUE \\[JOB\\]")) << screen();
  EXPECT_TRUE(shows("examples\n  set train.dynamics.lr 0.001")) << screen();
  enter("?");
  EXPECT_TRUE(shows("watch SERIES")) << screen();
}

TEST_F(repl_tmux_test, quotes_in_values_reach_the_job_file) {
  start("quotes");
  enter("submit job.toml train.finish.steps=3 job.name=\"two words\" plugins=[\"" TROUPE_PLUGIN_DIR "/libtest_plugin_good.so\"]");
  EXPECT_TRUE(shows("job 1 done")) << screen();
  enter("jobs");
  EXPECT_TRUE(shows("job 1 \\(two words\\) done")) << screen();
  enter("submit job.toml job.name=\"open");
  EXPECT_TRUE(shows("the quote \" in column 26 is not closed")) << screen();
}

}  // namespace
}  // namespace troupe::testing_apps
