// Tests of the REPL without an address: jobs of this process, one after the other.
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "actors/repl/repl.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using namespace std::chrono_literals;

// Changes the working directory to a temporary folder while it lives: jobs write checkpoints and
// weights there.
struct working_folder {
  working_folder() { std::filesystem::current_path(here.path); }
  ~working_folder() { std::filesystem::current_path(before); }
  const std::filesystem::path before = std::filesystem::current_path();
  test::temp_dir here;
};

class repl_embedded : public testing::Test {
 protected:
  repl_embedded()
      : backend_(make_embedded_backend([this](const std::string& line) {
          std::lock_guard guard(lock_);
          lines_.push_back(line);
          changed_.notify_all();
        })),
        session_(*backend_, false) {}

  bool said(const std::string& what) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, 30s, [&] {
      for (const auto& l : lines_)
        if (l.find(what) != std::string::npos) return true;
      return false;
    });
  }
  repl_reply submit(const std::string& more) {
    const std::string text = lenet_like();
    return session_.run("submit small.toml " + more, &text);
  }

  // Submits a job and waits for its first step, so that commands reach it.
  void submit_and_wait(const std::string& more) {
    EXPECT_EQ(submit(more).how, repl_reply::kind::ok);
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  }
  // Runs a line, polls until its effect has occurred, and returns all output.
  repl_reply whole(const std::string& line) {
    std::string all;
    auto r = run_line([&](const std::string& l, const std::string* text) { return session_.run(l, text); }, line, nullptr,
                      [&](const repl_reply& part) { all += (all.empty() ? "" : "\n") + part.text; },
                      [this] {  // as in a terminal: polls after new output or a timeout
                        std::unique_lock guard(lock_);
                        changed_.wait_for(guard, 100ms);
                        return true;
                      });
    r.text = all;
    return r;
  }

  working_folder folder_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::unique_ptr<repl_backend> backend_;
  repl_session session_;
};

TEST_F(repl_embedded, jobs_run_one_after_the_other) {
  EXPECT_EQ(submit("train.finish.steps=20").how, repl_reply::kind::ok);
  EXPECT_EQ(submit("train.finish.steps=10").how, repl_reply::kind::ok);
  EXPECT_TRUE(said("job 1 done"));
  EXPECT_TRUE(said("job 2 done"));
  const auto jobs = backend_->view().jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].weights_sha256, embedded(job_of(lenet_like())).weights_sha256);
  EXPECT_EQ(jobs[1].step, 10u);
}

TEST_F(repl_embedded, names_the_key_of_a_mistake_and_queues_nothing) {
  const auto r = submit("data.batch=25");
  EXPECT_NE(r.how, repl_reply::kind::ok);
  EXPECT_NE(r.text.find("batch"), std::string::npos) << r.text;
  EXPECT_TRUE(backend_->view().jobs.empty());
  EXPECT_EQ(session_.run("stop").how, repl_reply::kind::failed);
}

TEST_F(repl_embedded, shows_rate_0_when_the_job_is_paused) {
  submit_and_wait("train.finish.steps=100000000 job.name=paused");
  const auto becomes = [&](auto wanted) {
    for (const auto deadline = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < deadline;
         std::this_thread::yield())
      if (wanted(backend_->view().jobs.at(0))) return true;
    return false;
  };
  EXPECT_TRUE(becomes([](const repl_job& j) { return j.examples_per_s > 0; }));
  EXPECT_EQ(session_.run("pause").how, repl_reply::kind::ok);
  EXPECT_TRUE(becomes([](const repl_job& j) { return j.state == job_state::paused && j.examples_per_s == 0; }));
}

TEST_F(repl_embedded, shows_layers_and_completes_modes_of_the_job) {
  EXPECT_EQ(submit("train.finish.steps=100000000 job.name=endless").how, repl_reply::kind::ok);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  const auto layer = whole("layer left").text;
  EXPECT_NE(layer.find("left.weight"), std::string::npos) << layer;
  EXPECT_NE(session_.run("_complete mode ss").text.find("ssp"), std::string::npos);
  session_.run("stop");
  EXPECT_TRUE(said("job 1 stopped"));
  std::remove("endless.checkpoint.safetensors");
}

TEST_F(repl_embedded, answers_a_checkpoint_when_its_file_is_on_disk) {
  submit_and_wait("train.finish.steps=100000000 job.name=answered");
  const std::string file = "answered.checkpoint.safetensors";
  const auto saved = whole("checkpoint 1");
  EXPECT_EQ(saved.how, repl_reply::kind::ok) << saved.text;
  EXPECT_NE(saved.text.find(file), std::string::npos) << saved.text;
  EXPECT_TRUE(std::filesystem::exists(file));
  const auto stopped = whole("stop 1");
  EXPECT_EQ(stopped.how, repl_reply::kind::ok) << stopped.text;
  EXPECT_NE(stopped.text.find("stopped at step"), std::string::npos) << stopped.text;
  std::filesystem::remove(file);
}

// A folder at the file's path stands in for a full disk, since root may write anywhere else.
TEST_F(repl_embedded, reports_a_failed_checkpoint_and_saves_it_in_the_second_place) {
  const std::string file = "unwritable.checkpoint.safetensors";
  const auto second = std::filesystem::absolute("unwritable_second_place");
  std::filesystem::create_directories(file + "/taken");
  std::filesystem::create_directories(second);
  ::setenv("TMPDIR", second.c_str(), 1);
  submit_and_wait("train.finish.steps=100000000 job.name=unwritable");
  for (const char* line : {"checkpoint 1", "stop 1"}) {
    const auto r = whole(line);
    EXPECT_EQ(r.how, repl_reply::kind::failed) << line << ": " << r.text;
    EXPECT_NE(r.text.find(file + ": it is a folder; it is in "), std::string::npos) << line << ": " << r.text;
    EXPECT_NE(r.text.find(second.string() + "/troupe-"), std::string::npos) << line << ": " << r.text;
  }
  EXPECT_TRUE(said("job 1 stopped"));
  std::size_t whole_ones = 0;
  for (const auto& e : std::filesystem::recursive_directory_iterator(second))
    if (e.is_regular_file()) whole_ones += load_checkpoint(e.path().string()).has_value() ? 1 : 0;
  EXPECT_EQ(whole_ones, 1u) << "one second place per job, with the newest checkpoint";
  ::unsetenv("TMPDIR");
  std::filesystem::remove_all(file);
  std::filesystem::remove_all(second);
}

// No command waits for an answer when the REPL ends, so its exit code has to report the failure.
TEST_F(repl_embedded, reports_an_unsaved_checkpoint_when_the_backend_closes) {
  const std::string file = "left.checkpoint.safetensors";
  const auto second = std::filesystem::absolute("left_second_place");
  std::filesystem::create_directories(second);
  ::setenv("TMPDIR", second.c_str(), 1);
  for (const bool taken : {true, false}) {
    if (taken) std::filesystem::create_directories(file + "/taken");
    bool unsaved = false;
    backend_ = make_embedded_backend([](const std::string&) {}, [&] { unsaved = true; });
    repl_session session(*backend_, false);
    const std::string text = lenet_like();
    EXPECT_EQ(session.run("submit small.toml train.finish.steps=100000000 job.name=left", &text).how, repl_reply::kind::ok);
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    backend_.reset();
    EXPECT_EQ(unsaved, taken);
    std::filesystem::remove_all(file);
  }
  ::unsetenv("TMPDIR");
  std::filesystem::remove_all(second);
}

TEST_F(repl_embedded, kill_ends_running_paused_and_queued_jobs_without_a_checkpoint) {
  submit_and_wait("train.finish.steps=100000000 eval.every=0 job.name=killed");
  EXPECT_EQ(submit("train.finish.steps=100000000 job.name=waiting").how, repl_reply::kind::ok);
  EXPECT_EQ(submit("train.finish.steps=100000000 eval.every=0 job.name=third").how, repl_reply::kind::ok);
  EXPECT_EQ(whole("kill 2").text, "job 2 removed from the queue, it had not started");
  EXPECT_NE(whole("kill 1").text.find("job 1 killed at step "), std::string::npos);
  EXPECT_TRUE(said("job 1 failed: killed by a user"));
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (backend_->view().jobs.at(2).state != job_state::running && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_NE(whole("pause 3").text.find("job 3 paused at step "), std::string::npos);
  EXPECT_EQ(whole("kill 3").how, repl_reply::kind::ok);
  EXPECT_TRUE(said("job 3 failed: killed by a user"));
  EXPECT_EQ(backend_->view().jobs.at(1).state, job_state::stopped);
  for (const char* name : {"killed", "waiting", "third"})
    EXPECT_FALSE(std::filesystem::exists(std::string(name) + ".checkpoint.safetensors")) << name;
  EXPECT_EQ(whole("kill 1").how, repl_reply::kind::failed);
}

TEST_F(repl_embedded, status_shows_mode_rate_and_time_left) {
  submit_and_wait("train.finish.steps=100000000 eval.every=0 job.name=shown");
  const auto t = session_.run("status").text;
  for (const char* part : {"mode      bsp, 1 worker", "epoch     ", "lr        0.0", "examples/s", " left", "in memory"})
    EXPECT_NE(t.find(part), std::string::npos) << part << " in " << t;
  const auto set = whole("set train.dynamics.lr 0.001").text;  // the schedule may give another rate at that step
  EXPECT_EQ(set.find("train.dynamics.lr"), 0u) << set;
  EXPECT_NE(set.find(": 0.05 -> 0.001 from step "), std::string::npos) << set;
  EXPECT_EQ(whole("mode ssp staleness=3").text.find("mode: bsp -> ssp staleness=3 from step "), 0u);
  EXPECT_EQ(whole("kill").how, repl_reply::kind::ok);
}

TEST_F(repl_embedded, closing_ends_a_running_job) {
  EXPECT_EQ(submit("train.finish.steps=100000000 job.name=endless").how, repl_reply::kind::ok);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  backend_.reset();
  EXPECT_TRUE(said("job 1 stopped"));
  std::remove("endless.checkpoint.safetensors");
}

}  // namespace
}  // namespace troupe
