// The REPL on a job that runs embedded in this process.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/repl.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;
using namespace std::chrono_literals;

TEST(repl_local, a_running_embedded_job_is_seen_and_steered) {
  std::mutex lock;
  std::condition_variable changed;
  std::set<std::string> seen;
  embedded_options o;
  o.threads = 2;
  o.on_event = [&](const event_effect& e) {
    std::lock_guard guard(lock);
    seen.insert(e.kind);
    changed.notify_all();
  };
  const auto wait_for = [&](const std::string& kind) {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, 20s, [&] { return seen.contains(kind); });
  };
  const auto j = job_of(lenet_like(), {"train.finish.steps=100000000"});
  ASSERT_TRUE(j);
  embedded_run run(j, o);
  embedded_result result;
  std::thread trains([&] { result = run.run(); });
  ASSERT_TRUE(wait_for("step"));
  const auto host = run.host();
  ASSERT_TRUE(host);
  repl_job row;
  row.id = j->id;
  row.name = "small";
  row.state = "running";
  auto backend = make_local_backend(*host, [&] { return std::vector<repl_job>{row}; });
  repl_session text(*backend, false), json(*backend, true);
  EXPECT_NE(text.run("roles").text.find("worker0/conv1"), std::string::npos);
  EXPECT_NE(json.run("status").text.find("\"name\":\"small\""), std::string::npos);
  EXPECT_EQ(text.run("pause").how, repl_reply::kind::ok);
  EXPECT_TRUE(wait_for("paused"));
  EXPECT_EQ(text.run("resume").how, repl_reply::kind::ok);
  EXPECT_TRUE(wait_for("resumed"));
  EXPECT_EQ(text.run("submit /dev/null").how, repl_reply::kind::usage);
  EXPECT_EQ(text.run("stop").how, repl_reply::kind::ok);
  trains.join();
  EXPECT_TRUE(result.ok && result.stopped) << result.error;
}

}  // namespace
}  // namespace troupe
