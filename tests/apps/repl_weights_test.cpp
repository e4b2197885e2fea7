// `troupe repl` without a cluster: the files of a completed job's weights.
#include <cstdlib>

#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/safetensors.hpp"
#include "tests/apps/child.hpp"
#include "tests/apps/terminal.hpp"

namespace troupe::testing_apps {
namespace {

namespace fs = std::filesystem;

class repl_weights_test : public command_test {
 protected:
  repl_weights_test() { write("job.toml", tiny_job()); }

  // Runs the job to its end and leaves the REPL. Returns its exit code.
  int run(terminal& t, const std::string& seed) const {
    EXPECT_TRUE(t.shows("troupe> ")) << t.screen();
    t.type("submit " + path("job.toml") + " job.seed=" + seed + "\n");
    EXPECT_TRUE(t.shows("job 1 done")) << t.screen();
    t.type("quit\n");
    return t.wait();
  }
};

TEST_F(repl_weights_test, a_completed_job_saves_its_weights_and_replaces_no_file) {
  const std::vector<std::string> words{troupe_program(), "repl"};
  terminal first(words, folder_);
  EXPECT_EQ(run(first, "3"), 0);
  EXPECT_NE(first.screen().find("job 1 done, weights in tiny.safetensors\r\n"), std::string::npos) << first.screen();
  ASSERT_EQ(troupe({"train", "job.toml", "--out", "trained.safetensors"}).code, 0);
  const auto kept = file_text(path("tiny.safetensors"));
  EXPECT_TRUE(kept == file_text(path("trained.safetensors"))) << "they differ from those of embedded `troupe train`";
  ASSERT_FALSE(kept.empty());

  terminal second(words, folder_);
  EXPECT_EQ(run(second, "4"), 0);
  EXPECT_NE(second.screen().find("job 1 done, weights in tiny.2.safetensors\r\n"), std::string::npos) << second.screen();
  EXPECT_TRUE(file_text(path("tiny.safetensors")) == kept) << "the first run's file was replaced";
  EXPECT_TRUE(read_safetensors(path("tiny.2.safetensors")).has_value());
  EXPECT_FALSE(file_text(path("tiny.2.safetensors")) == kept);
}

TEST_F(repl_weights_test, saves_weights_in_a_second_place_when_the_folder_is_gone) {
  const auto gone = folder_ / "gone", second = folder_ / "second";
  fs::create_directories(gone);
  fs::create_directories(second);
  ::setenv("TMPDIR", second.c_str(), 1);
  terminal t({troupe_program(), "repl"}, gone);
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(t.shows("troupe> ")) << t.screen();
  fs::remove_all(gone);
  t.type("\n");
  EXPECT_EQ(run(t, "3"), 1) << "the file could not be written in the current folder: " << t.screen();
  EXPECT_NE(t.screen().find("tiny.safetensors: "), std::string::npos) << t.screen();
  const auto at = t.screen().find(second.string() + "/troupe-");
  ASSERT_NE(at, std::string::npos) << t.screen();
  const auto file = t.screen().substr(at, t.screen().find(" instead", at) - at);
  EXPECT_TRUE(read_safetensors(file).has_value()) << file;
}

TEST_F(repl_weights_test, jobs_have_run_folders_that_troupe_resume_continues) {
  terminal t({"/usr/bin/env", "TROUPE_RUNS=runs", troupe_program(), "repl"}, folder_);
  ASSERT_TRUE(t.shows("troupe> ")) << t.screen();
  t.type("submit job.toml\n");
  EXPECT_TRUE(t.shows("job 1 done, weights in " + path("runs/1-tiny/last.safetensors"))) << t.screen();
  t.type("submit job.toml train.finish.steps=1000000 eval.every=0\n");
  ASSERT_TRUE(t.shows("job 2")) << t.screen();
  t.type("status\n");
  EXPECT_TRUE(t.shows(path("runs/2-tiny"))) << t.screen();
  t.type("stop 2\n");
  EXPECT_TRUE(t.shows("troupe resume 2")) << t.screen();
  t.type("quit\n");
  EXPECT_EQ(t.wait(), 0);
  const auto first = read_run_info(folder_ / "runs" / "1-tiny"), second = read_run_info(folder_ / "runs" / "2-tiny");
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->state, "done");
  EXPECT_EQ(second->state, "stopped");
  EXPECT_EQ(second->overrides, (std::vector<std::string>{"train.finish.steps=1000000", "eval.every=0"}));
  const auto steps = std::to_string(second->steps + 50);
  EXPECT_EQ(troupe({"resume", "2", "--run-dir", "runs", "--set", "train.finish.steps=" + steps}).code, 0);
}

}  // namespace
}  // namespace troupe::testing_apps
