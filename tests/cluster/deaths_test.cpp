// Repeated node failures: the coordinator's daemon several times, and a random node in every mode.
// TROUPE_KILL_ROUNDS sets the number of failures (more in nightly runs than in CI).
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "tests/cluster/modes.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"

namespace troupe::testing_cluster {
namespace {

int rounds(int otherwise) {
  return static_cast<int>(from_environment("TROUPE_KILL_ROUNDS", static_cast<std::uint64_t>(otherwise)));
}

class cluster_deaths : public cluster_test {
 protected:
  static std::vector<std::string> with(std::vector<std::string> set, const std::vector<std::string>& more) {
    set.insert(set.end(), more.begin(), more.end());
    return set;
  }
  static void expect_done(const run_result& r) {
    ASSERT_FALSE(r.events.empty());
    EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
    EXPECT_EQ(r.outcome.exit_code(), 0);
  }
  bool has_roles(const std::string& node) { return ask(node, "roles", true).text.find("\"job\"") != std::string::npos; }
};

// Promise 6. Each kill comes after a checkpoint of the previous incarnation; three kills without a
// checkpoint between them would end the job.
TEST_F(cluster_deaths, training_continues_within_10_s_after_each_coordinator_restart) {
  make_cluster(4);
  start_all();
  const int deaths = rounds(2);
  const auto set = with(workers(4, 2), {"train.finish.steps=" + std::to_string(1000 * (deaths + 1)), "eval.every=0"});
  const auto unbroken = run(tiny_job(), set);
  expect_done(unbroken);
  auto b = begin(tiny_job(), with(set, {"checkpoint.every=50"}));
  std::mt19937_64 r(7);
  std::uint64_t step = 0;
  auto worst = 0ms;
  for (int death = 0; death < deaths; ++death) {
    SCOPED_TRACE(death);
    step += 200 + r() % 700;
    ASSERT_TRUE(b->wait_event("step", 60s, step));
    kill_hard("n1");
    const auto begun = clock::now();
    start("n1");
    ASSERT_TRUE(daemon("n1").wait_log("job 2 (tiny) runs", 10s)) << daemon("n1").log();
    worst = std::max(worst, since(begun));
  }
  const auto done = b->join();
  expect_done(done);
  EXPECT_EQ(done.text("weights_sha256"), unbroken.text("weights_sha256"));
  std::printf("kill -9 of the coordinator, %d times: training continued after at most %d ms\n", deaths,
              static_cast<int>(worst.count()));
}

// The coordinator is not restarted: the members end their roles, hold no resources of the job, and
// exit on SIGTERM.
TEST_F(cluster_deaths, members_release_a_job_when_its_coordinator_is_lost) {
  make_cluster(3);
  start_all();
  const auto before = daemon("n2").descriptors();
  auto b = begin(tiny_job(), endless(workers(3, 2)));
  ASSERT_TRUE(b->wait_event("step", 20s, 50));
  ASSERT_TRUE(has_roles("n2"));
  kill_hard("n1");
  b->detach();
  const auto lost = clock::now();
  for (const std::string node : {"n2", "n3"}) {
    ASSERT_TRUE(daemon(node).wait_log("the coordinator's daemon n1 is lost", 10s)) << daemon(node).log();
    while (has_roles(node) && since(lost) < 60s) {
    }
    EXPECT_FALSE(has_roles(node)) << ask(node, "roles").text;
    std::printf("%s has no roles %d ms after the death of its coordinator\n", node.c_str(), static_cast<int>(since(lost).count()));
    EXPECT_LE(daemon(node).descriptors(), before + 2) << "connections or files of the job are still open";
    daemon(node).signal(SIGTERM);
    EXPECT_EQ(daemon(node).wait(10s), 0) << daemon(node).log();
  }
}

// In every mode the job runs all of its steps, reports each recovery and, after the step that it
// resumes from, each step once, and ends with finite weights. In lockstep modes the weights equal
// those of an undisturbed run.
TEST_F(cluster_deaths, a_job_of_every_mode_survives_a_node_death_at_a_random_step) {
  make_cluster(4);
  start_all();
  const std::set<std::string> lockstep{"bsp", "sandblaster"};
  for (const auto& [mode, of_mode] : modes_for_four_nodes()) {
    SCOPED_TRACE(mode);
    const auto set = with(of_mode, {"train.finish.steps=60", "eval.every=0", "data.batch=16", "checkpoint.every=10"});
    const auto hash = lockstep.contains(mode) ? run(config_text("lenet_modes.toml"), set).text("weights_sha256") : "";
    double worst = 0, again = 0;
    for (int round = 0; round < rounds(1); ++round) {
      SCOPED_TRACE(round);
      std::mt19937_64 r(static_cast<std::uint64_t>(round));
      auto b = begin(config_text("lenet_modes.toml"), set);
      const bool begun = b->wait_event("step", 60s, 1 + r() % 50);
      EXPECT_TRUE(begun);
      if (!begun) return b->detach();
      const auto node = "n" + std::to_string(2 + r() % 3);
      kill_hard(node);
      const auto done = b->join();
      expect_done(done);
      EXPECT_EQ(done.value("steps"), 60);
      if (!hash.empty()) {
        EXPECT_EQ(done.text("weights_sha256"), hash);
      }
      std::uint64_t announced = 0;
      for (const auto& e : done.events) {
        if (e.event.is<recovered_event>()) {
          announced = std::min(announced, e.event.step);
          for (const auto& [name, v] : flatten(e.event).values)
            (name == "ms" ? worst : again) = std::max(name == "ms" ? worst : again, v);
        }
        if (!e.event.is<step_event>()) continue;
        for (const auto& [name, v] : flatten(e.event).values) EXPECT_TRUE(std::isfinite(v)) << name;
        EXPECT_GT(e.event.step, announced) << "step reported twice";
        announced = e.event.step;
      }
      start(node);
      ASSERT_TRUE(joined(node));
    }
    std::printf("%s: kill -9, %d times: recovered in at most %.0f ms, repeated at most %.0f steps\n", mode.c_str(), rounds(1),
                worst, again);
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
