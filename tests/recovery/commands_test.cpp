// Commands of clients while nodes fail: each has one outcome, which agrees with the job's state.
#include "tests/recovery/commands.hpp"

#include <map>

#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

fleet_config config_of(std::uint64_t steps, const std::string& checkpoint) {
  fleet_config c;
  small_text t;
  t.steps = steps, t.checkpoint = checkpoint;
  c.job = text_of(mode_named("bsp"), t);
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

const sent_command* sent_by(const command_law& law, const std::string& client) {
  for (const auto& c : law.sent())
    if (c->client == client) return c.get();
  return nullptr;
}

// 200 s after the restart: longer than a job may do nothing that is not paused.
TEST(recovery_commands, a_paused_job_stays_paused_when_the_coordinator_restarts) {
  for (const std::string checkpoint : {"", "4"}) {
    command_law law;
    std::string state;
    const auto got = run_fleet(config_of(40, checkpoint), [&](fleet& f) {
      law.watch(f);
      f.after_point(300, [&](const std::string&) { law.say("client.a", "pause"); });
      f.when().at(10s, [&f] { f.kill(f.coordinator()); });
      f.when().at(11s, [&f] { f.start(f.coordinator()); });
      f.when().at(200s, [&] {
        for (const auto& j : f.at(f.coordinator())->view().jobs) state = text_of(j.state);
        law.say("client.b", "resume");
      });
    });
    EXPECT_EQ(got.wrong, "");
    EXPECT_EQ(law.wrong(), "");
    EXPECT_EQ(got.kind, "done") << got.text;
    EXPECT_EQ(state, "paused");
    ASSERT_TRUE(sent_by(law, "client.b"));
    EXPECT_TRUE(sent_by(law, "client.b")->reply.text.starts_with("job 1 resumed at step")) << sent_by(law, "client.b")->reply.text;
  }
}

TEST(recovery_commands, pause_is_answered_when_a_member_is_silent) {
  command_law law;
  std::string state;
  const auto got = run_fleet(config_of(60, "4"), [&](fleet& f) {
    law.watch(f);
    f.after_point(300, [&f, &law](const std::string&) {
      f.stop_for("n3", 60s);
      law.say("client.a", "pause");
    });
    f.when().at(200s, [&] {
      for (const auto& j : f.at(f.coordinator())->view().jobs) state = text_of(j.state);
      law.say("client.b", "resume");
    });
  });
  EXPECT_EQ(got.wrong, "");
  EXPECT_EQ(law.wrong(), "");
  EXPECT_EQ(got.kind, "done") << got.text;
  EXPECT_EQ(state, "paused");
  ASSERT_TRUE(sent_by(law, "client.b"));
  EXPECT_EQ(sent_by(law, "client.a")->reply.how, repl_reply::kind::ok);
  EXPECT_TRUE(sent_by(law, "client.b")->reply.text.starts_with("job 1 resumed at step")) << sent_by(law, "client.b")->reply.text;
}

// Both move at once: one move is done, the other is refused, each at its own client.
TEST(recovery_commands, two_clients_that_move_at_once_get_their_own_outcome) {
  command_law law;
  const auto got = run_fleet(config_of(60, "4"), [&](fleet& f) {
    law.watch(f);
    f.after_point(300, [&law](const std::string&) {
      law.say("client.a", "drain n2");
      law.say("client.b", "drain n3");
    });
  });
  EXPECT_EQ(got.wrong, "");
  EXPECT_EQ(law.wrong(), "");
  EXPECT_EQ(got.moved, 1u);
  std::size_t done = 0;
  for (const auto& c : law.sent()) done += c->reply.how == repl_reply::kind::ok ? 1 : 0;
  EXPECT_EQ(done, 1u);
}

TEST(recovery_commands, every_command_has_one_outcome_that_agrees_with_the_job) {
  std::map<std::string, std::uint64_t> ends;
  std::uint64_t wrong = 0, commands = 0, done = 0, lost = 0;
  const auto first = testing::first_seed();
  const auto count = testing::seeds(60);
  for (auto seed = first; seed < first + count; ++seed) {
    const auto r = run_commands(seed);
    EXPECT_TRUE(r.wrong.empty()) << r.wrong;
    if (!r.wrong.empty() && ++wrong >= 5) break;
    for (const auto& c : r.sent) {
      ++commands;
      lost += c->lost ? 1 : 0;
      done += !c->lost && c->reply.how == repl_reply::kind::ok ? 1 : 0;
    }
    ++ends[r.end];
  }
  for (const auto& [text, n] : ends) std::printf("%6llu  %s\n", static_cast<unsigned long long>(n), text.c_str());
  std::printf("%llu commands: %llu done, %llu lost with the connection\n", static_cast<unsigned long long>(commands),
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(lost));
  if (count < 50) return;
  EXPECT_GT(done, 0u);
  EXPECT_LT(done, commands);
}

}  // namespace
}  // namespace troupe::recovery
