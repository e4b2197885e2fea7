// The REPL without an address: jobs of this process, one after the other.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/repl/repl.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using namespace std::chrono_literals;

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

TEST_F(repl_embedded, a_mistake_names_its_place_and_queues_nothing) {
  const auto r = submit("data.batch=25");
  EXPECT_NE(r.how, repl_reply::kind::ok);
  EXPECT_NE(r.text.find("batch"), std::string::npos) << r.text;
  EXPECT_TRUE(backend_->view().jobs.empty());
  EXPECT_EQ(session_.run("stop").how, repl_reply::kind::failed);
}

TEST_F(repl_embedded, layers_and_modes_of_the_job_are_known) {
  EXPECT_EQ(submit("train.finish.steps=100000000 job.name=endless").how, repl_reply::kind::ok);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_NE(session_.run("layer left").text.find("left.weight"), std::string::npos) << session_.run("layer left").text;
  EXPECT_NE(session_.run("_complete mode ss").text.find("ssp"), std::string::npos);
  session_.run("stop");
  EXPECT_TRUE(said("job 1 stopped"));
  std::remove("endless.checkpoint.safetensors");
}

TEST_F(repl_embedded, closing_ends_a_job_that_would_run_for_ever) {
  EXPECT_EQ(submit("train.finish.steps=100000000 job.name=endless").how, repl_reply::kind::ok);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (backend_->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  backend_.reset();
  EXPECT_TRUE(said("job 1 stopped"));
  std::remove("endless.checkpoint.safetensors");
}

}  // namespace
}  // namespace troupe
