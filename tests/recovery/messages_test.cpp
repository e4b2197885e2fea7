// Changes that commands made to a job are kept when the coordinator's daemon restarts.
#include "tests/recovery/laws.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

fleet_config long_job(const std::string& checkpoint) {
  small_text t;
  t.workers = 4, t.shards = 1, t.steps = 60, t.checkpoint = checkpoint;
  fleet_config c;
  c.nodes = 4;
  c.job = text_of(mode_named("bsp"), t);
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

void kill_and_start(fleet& f) {
  f.kill(f.coordinator());
  f.when().in(500ms, [&f] { f.start(f.coordinator()); });
}

// With checkpoints to resume from, and without.
TEST(recovery_words, a_drained_node_gets_no_roles_after_the_coordinator_restarts) {
  for (const char* checkpoint : {"10", ""}) {
    const auto c = long_job(checkpoint);
    const auto calm = run_fleet(c);
    ASSERT_EQ(calm.wrong, "");
    std::size_t looks = 0, busy = 0;
    const auto got = run_fleet(c, [&](fleet& f) {
      f.after_point(calm.points / 4, [&f](const std::string&) { f.tell({drain_command{"n3"}}); });
      f.after_point(calm.points / 2, [&f](const std::string&) { kill_and_start(f); });
      for (auto p = calm.points / 2 + 20; p < calm.points * 2; p += 7)
        f.after_point(p, [&](const std::string&) {
          ++looks;
          if (!f.at("n3")->idle()) ++busy;
        });
    });
    ASSERT_EQ(got.wrong, "") << checkpoint;
    EXPECT_EQ(got.kind, "done") << got.text;
    EXPECT_EQ(got.moved, 1u);
    EXPECT_EQ(got.recovered, 1u) << "one recovery with the changed plan, not with the job file's";
    EXPECT_EQ(got.sha, calm.sha);
    EXPECT_GT(looks, 10u);
    EXPECT_EQ(busy, 0u);
  }
}

TEST(recovery_words, a_paused_job_without_a_checkpoint_stays_paused_after_a_restart) {
  const auto c = long_job("");
  const auto calm = run_fleet(c);
  ASSERT_EQ(calm.wrong, "");
  const auto got = run_fleet(c, [&](fleet& f) {
    f.after_point(calm.points / 2, [&f](const std::string&) {
      f.tell({pause_command{}});
      f.when().in(300ms, [&f] { kill_and_start(f); });
      f.when().in(100s, [&f] { f.tell({resume_command{}}); });
    });
  });
  ASSERT_EQ(got.wrong, "");
  EXPECT_EQ(got.kind, "done") << got.text;
  EXPECT_EQ(got.sha, calm.sha);
  EXPECT_GT(seconds_of(got.took), 100);
}

}  // namespace
}  // namespace troupe::recovery
