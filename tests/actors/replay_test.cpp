// Tests of replay: a job is run again from the logged order in which its roles received messages,
// with the same weights and the same errors.
#include <stdexcept>

#include "actors/shell/job_log.hpp"
#include "actors/shell/node_host.hpp"
#include "runtime/replay/player.hpp"
#include "runtime/stage/stage.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

struct recorded {
  embedded_result result;
  replay::node_part part;
};

recorded record(const std::shared_ptr<prepared_job>& j, std::vector<command> words = {}) {
  recorded r;
  embedded_options o;
  o.threads = 2;
  embedded_run* self = nullptr;
  std::shared_ptr<const job_log> log;
  o.on_event = [&](const event_effect& e) {
    if (!log) log = self->host()->log_of(j->id);
    if (e.is<step_event>() && e.step == 3)
      for (auto& w : words) self->command(w);
  };
  embedded_run run(j, std::move(o));
  self = &run;
  r.result = run.run();
  if (log) r.part.roles = log->parts();
  // Converted to the file format and back, as in a post-mortem.
  auto read = replay::from_bytes(replay::to_bytes(r.part));
  EXPECT_TRUE(read);
  r.part = *std::move(read);
  return r;
}

struct played {
  replay::replay_end end;
  std::string weights;
  std::uint64_t step = 0;
  std::string error;
};

played play(const std::shared_ptr<prepared_job>& j, const replay::node_part& part, const std::vector<role_id>& without = {}) {
  const auto dev = make_cpu_device();
  replay::player p(*dev, j->id);
  for (const auto& r : j->plan.roles) {
    const replay::role_part* log = nullptr;
    for (const auto& x : part.roles)
      if (x.id == r.id && std::find(without.begin(), without.end(), r.id) == without.end()) log = &x;
    p.add(make_role(j, r.id), r.name, r.node, log);
  }
  played o;
  p.on_event = [&](role_id, const event_effect& e) {
    if (e.is<step_event>()) o.step = e.step;
    if (e.is<error_event>()) o.error = message_of(e);
  };
  p.on_store = [&](const store_effect& s) {
    if (s.what == store_effect::kind_of::weights) o.weights = weights_sha256(s.named);
  };
  o.end = p.run();
  return o;
}

const overrides two_workers{"topology.workers_per_group=2", "pipeline.sub_solvers=2"};

overrides also(overrides a, const overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void same_again(const overrides& set, std::vector<command> words = {}) {
  const auto run = record(job_of(lenet_like(), set), std::move(words));
  ASSERT_TRUE(run.result.ok) << run.result.error;
  ASSERT_TRUE(run.part.complete());
  const auto again = play(job_of(lenet_like(), set), run.part);
  for (const auto& d : again.end.departures) ADD_FAILURE() << d;
  EXPECT_EQ(again.weights, run.result.weights_sha256);
  EXPECT_EQ(again.end.lost, 0u);
  std::uint64_t handled = 0, bytes = 0;
  for (const auto& r : run.part.roles) {
    handled += r.handled;
    for (const auto& c : r.chunks) bytes += c.size();
  }
  EXPECT_EQ(again.end.delivered, handled);
  EXPECT_LT(bytes, handled * 14) << handled;
}

TEST(replay, reproduces_the_weights_of_a_run_in_lockstep) { same_again(two_workers); }

// The weights of these modes depend on the order of messages, which the log has.
class replay_of_mode : public ::testing::TestWithParam<const char*> {};
TEST_P(replay_of_mode, reproduces_the_weights_of_a_run_bit_for_bit) {
  same_again(also(two_workers, {std::string("train.sync={") + GetParam() + "}"}));
}
INSTANTIATE_TEST_SUITE_P(modes, replay_of_mode,
                         ::testing::Values("mode=\"ssp\",staleness=2", "mode=\"downpour\"", "mode=\"easgd\"", "mode=\"gossip\""),
                         [](const auto& p) { return std::string(p.param).substr(6, std::string(p.param).find('"', 6) - 6); });

TEST(replay, replays_user_commands) { same_again(two_workers, {{set_command{"train.dynamics.lr", 0.01}}, {eval_command{}}}); }

TEST(replay, replays_a_mode_switch) {
  same_again(two_workers, {{mode_command{{"ssp", {{"staleness", "2"}}}}}});
  same_again(also(two_workers, {"train.sync={mode=\"downpour\"}"}), {{mode_command{{"bsp"}}}});
}

struct throwing_in_step_3 final : stage {
  using stage::stage;
  void begin_forward(slot& s, effects& out) override {
    if (s.h.step == 3) throw std::runtime_error("out of luck");
    stage::begin_forward(s, out);
  }
};

std::shared_ptr<prepared_job> unlucky() {
  const auto j = job_of(lenet_like(), two_workers);
  auto all = std::make_shared<tables>(stock_tables());
  all->stages.add("dropout", {[](stage_config c) { return std::make_unique<throwing_in_step_3>(std::move(c)); }, {}});
  j->all = all;
  return j;
}

TEST(replay, ends_with_the_same_exception_in_the_same_role) {
  const auto run = record(unlucky());
  ASSERT_FALSE(run.result.ok);
  const auto j = unlucky();
  const auto again = play(j, run.part);
  for (const auto& d : again.end.departures) ADD_FAILURE() << d;
  ASSERT_FALSE(again.end.failures.empty());
  bool found = false;
  for (const auto& f : again.end.failures)
    found |= j->plan[f.who].name == run.result.where && f.text == run.result.error && f.step == 3;
  EXPECT_TRUE(found) << run.result.where;
}

TEST(replay, reports_the_first_departure_when_the_job_differs) {
  const auto run = record(unlucky());
  const auto again = play(job_of(lenet_like(), two_workers), run.part);
  ASSERT_FALSE(again.end.departures.empty());
  EXPECT_NE(again.end.departures[0].find("out of luck"), std::string::npos) << again.end.departures[0];
}

TEST(replay, reproduces_the_weights_when_the_logs_of_some_roles_are_missing) {
  const auto run = record(job_of(lenet_like(), two_workers));
  const auto j = job_of(lenet_like(), two_workers);
  std::vector<role_id> half;
  for (const auto& r : j->plan.roles)
    if (index_of(r.id) % 2 == 1) half.push_back(r.id);
  const auto again = play(j, run.part, half);
  EXPECT_EQ(again.weights, run.result.weights_sha256) << (again.end.departures.empty() ? "" : again.end.departures[0]);
}

}  // namespace
}  // namespace troupe
