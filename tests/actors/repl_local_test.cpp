// The REPL on a job that runs embedded in this process.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/repl/repl.hpp"
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
  const auto events = std::make_shared<repl_events>();
  o.on_event = [&, events](const event_effect& e) {
    events->put(1, e);
    std::lock_guard guard(lock);
    seen.insert(e.kind);
    changed.notify_all();
  };
  const auto wait_for = [&](const std::string& kind) {
    std::unique_lock guard(lock);
    return changed.wait_for(guard, 20s, [&] { return seen.contains(kind); });
  };
  const auto j = job_of(lenet_like(), {"train.finish.steps=100000000", "topology.workers_per_group=2"});
  ASSERT_TRUE(j);
  j->id = 1;
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
  auto backend = make_local_backend(
      *host, [&] { return std::vector<repl_job>{row}; }, events);
  repl_session text(*backend, false), json(*backend, true);
  EXPECT_NE(text.run("roles").text.find("worker0/conv1"), std::string::npos);
  EXPECT_NE(json.run("status").text.find("\"name\":\"small\""), std::string::npos);
  // Commands that wait for their effect.
  const auto whole = [&](const std::string& line) {
    std::string all;
    auto r = run_line([&](const std::string& l, const std::string*) { return text.run(l); }, line, nullptr,
                      [&](const repl_reply& part) { all += part.text + "\n"; },
                      [] {
                        std::this_thread::yield();
                        return true;
                      });
    r.text = all;
    return r;
  };
  // The patience of `mode` counts askings; here nothing waits between them, so a refusal to wait longer is asked again, and so is
  // what finds the last switch still under way.
  const auto patiently = [&](const std::string& line) {
    auto r = whole(line);
    for (const auto end = std::chrono::steady_clock::now() + 20s;
         (r.text.find("not come to it yet") != std::string::npos || r.text.find("is under way") != std::string::npos) &&
         std::chrono::steady_clock::now() < end;)
      r = whole(line);
    return r;
  };
  EXPECT_NE(whole("watch loss 5").text.find("loss"), std::string::npos);
  EXPECT_NE(patiently("mode ssp staleness=2").text.find("mode ssp staleness=2 from step"), std::string::npos);
  EXPECT_NE(patiently("staleness").text.find("conv1.weight"), std::string::npos);
  for (const auto& [line, answer] :
       {std::pair{"set train.sync.staleness inf", "staleness=inf"}, {"mode nonsense", "unknown mode"}}) {
    const auto all = patiently(line).text;
    EXPECT_NE(all.find(answer), std::string::npos) << line << ": " << all;
  }
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
