// Test of the REPL on an embedded job in this process.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/repl/repl.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

// The published state of `host`; `jobs` and `events` come from the test.
class local_backend final : public repl_backend {
 public:
  local_backend(node_host& host, std::function<std::vector<repl_job>()> jobs, std::shared_ptr<repl_events> events)
      : host_(host), jobs_(std::move(jobs)), events_(std::move(events)) {}

  repl_view view() const override {
    repl_view v;
    v.node = "local";
    v.up_seconds = seconds_of(std::chrono::steady_clock::now() - begun_);
    if (jobs_) v.jobs = jobs_();
    for (auto& r : host_.published()) v.roles.push_back({v.node, std::move(r)});
    v.dropped = host_.counts();
    return v;
  }
  const repl_events& events() const override { return *events_; }
  expected<command_id> tell(std::uint32_t job, command c) override {
    const auto id = c.id = events_->next_command();
    host_.command(job, std::move(c));
    return id;
  }
  expected<std::uint32_t> submit(const repl_submission&) override {
    return unexpected(error("an embedded run has one job: submit to a cluster's daemon"));
  }

 private:
  node_host& host_;
  std::function<std::vector<repl_job>()> jobs_;
  std::shared_ptr<repl_events> events_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

using namespace testing_embedded;
using namespace std::chrono_literals;

// The kinds of events that have occurred.
class kinds_seen {
 public:
  void add(const std::string& kind) {
    std::lock_guard guard(lock_);
    seen_.insert(kind);
    changed_.notify_all();
  }
  bool wait_for(const std::string& kind) {
    std::unique_lock guard(lock_);
    return changed_.wait_for(guard, 20s, [&] { return seen_.contains(kind); });
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::set<std::string> seen_;
};

// Runs a line, polls until its effect has occurred, and returns all output.
repl_reply whole(repl_session& s, const std::string& line) {
  std::string all;
  auto r = run_line([&](const std::string& l, const std::string*) { return s.run(l); }, line, nullptr,
                    [&](const repl_reply& part) { all += part.text + "\n"; },
                    [] {
                      std::this_thread::yield();
                      return true;
                    });
  r.text = all;
  return r;
}

// Repeats a line that gave up or that another switch blocked: the patience of `mode` counts polls,
// and this test does not wait between them.
repl_reply patiently(repl_session& s, const std::string& line) {
  auto r = whole(s, line);
  for (const auto end = std::chrono::steady_clock::now() + 20s;
       (r.text.find("has not executed the command yet") != std::string::npos || r.text.find("is under way") != std::string::npos) &&
       std::chrono::steady_clock::now() < end;)
    r = whole(s, line);
  return r;
}

TEST(repl_local, shows_and_steers_a_running_embedded_job) {
  kinds_seen seen;
  embedded_options o;
  o.threads = 2;
  const auto events = std::make_shared<repl_events>();
  o.on_event = [&, events](const event_effect& e) {
    events->put(1, e);
    seen.add(name_of(e).name);
  };
  const auto j = job_of(lenet_like(), {"train.finish.steps=100000000", "topology.workers_per_group=2"});
  ASSERT_TRUE(j);
  j->id = 1;
  embedded_run run(j, o);
  embedded_result result;
  std::thread trains([&] { result = run.run(); });
  ASSERT_TRUE(seen.wait_for("step"));
  const auto host = run.host();
  ASSERT_TRUE(host);
  repl_job row;
  row.id = j->id;
  row.name = "small";
  row.state = job_state::running;
  auto backend = std::make_unique<local_backend>(
      *host, [&] { return std::vector<repl_job>{row}; }, events);
  repl_session text(*backend, false), json(*backend, true);
  EXPECT_NE(text.run("roles").text.find("worker0/conv1"), std::string::npos);
  EXPECT_NE(json.run("status").text.find("\"name\":\"small\""), std::string::npos);
  EXPECT_NE(whole(text, "watch loss 5").text.find("loss"), std::string::npos);
  for (const auto& [line, answer] : {std::pair{"mode ssp staleness=2", "mode: ssp staleness=2 from step"},
                                     {"staleness", "conv1.weight"},
                                     {"set train.sync.staleness inf", "staleness=inf"},
                                     {"mode nonsense", "unknown mode"}}) {
    const auto all = patiently(text, line).text;
    EXPECT_NE(all.find(answer), std::string::npos) << line << ": " << all;
  }
  EXPECT_EQ(text.run("pause").how, repl_reply::kind::ok);
  EXPECT_TRUE(seen.wait_for("paused"));
  EXPECT_EQ(text.run("resume").how, repl_reply::kind::ok);
  EXPECT_TRUE(seen.wait_for("resumed"));
  const std::string other = "[job]\n";
  EXPECT_NE(text.run("submit other.toml", &other).text.find("an embedded run has one job"), std::string::npos);
  EXPECT_EQ(text.run("stop").how, repl_reply::kind::ok);
  trains.join();
  EXPECT_TRUE(result.ok && result.stopped) << result.error;
}

}  // namespace
}  // namespace troupe
