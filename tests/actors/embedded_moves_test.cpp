// Tests of layers that move while a job runs embedded. There is one node, so a layer that is
// colocated with the workers becomes a placed layer; that is another plan with other roles, shards
// and routes.
#include <thread>

#include "actors/repl/repl.hpp"
#include "actors/shell/node_host.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/actors/helpers.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

command move_key(const std::string& layer, const std::string& node = "local") { return {move_command{layer, node}}; }

struct watched {
  embedded_result result;
  std::vector<event_effect> events;
  std::vector<std::string> of(const std::string& kind) const {
    std::vector<std::string> texts;
    for (const auto& e : events)
      if (name_of(e).name == kind) texts.push_back(message_of(e));
    return texts;
  }
};

// Gives each command at the end of its step.
watched run_saying(const std::shared_ptr<prepared_job>& j, std::vector<std::pair<std::uint64_t, command>> words) {
  watched w;
  embedded_options o;
  o.threads = 2;
  embedded_run* self = nullptr;
  o.on_event = [&](const event_effect& e) {
    w.events.push_back(e);
    if (e.is<step_event>())
      for (const auto& [at, what] : words)
        if (at == e.step) self->command(what);
  };
  embedded_run run(j, std::move(o));
  self = &run;
  w.result = run.run();
  return w;
}

// The same, but a move waits for the end of the former move, which may take any number of steps.
watched run_moving(const std::shared_ptr<prepared_job>& j, const std::vector<std::pair<std::uint64_t, command>>& moves) {
  watched w;
  embedded_options o;
  o.threads = 2;
  embedded_run* self = nullptr;
  std::size_t next = 0;
  bool moving = false;
  o.on_event = [&](const event_effect& e) {
    w.events.push_back(e);
    if (e.is<moved_event>() || e.is<refused_event>()) moving = false;
    if (!e.is<step_event>() || moving || next == moves.size() || e.step < moves[next].first) return;
    moving = true;
    self->command(moves[next++].second);
  };
  embedded_run run(j, std::move(o));
  self = &run;
  w.result = run.run();
  return w;
}

TEST(embedded_moves, moves_do_not_change_the_weights) {
  const overrides set{"train.finish.steps=200", "topology.workers_per_group=2", "topology.servers_per_group=2", "eval.every=50"};
  const auto still = embedded(job_of(lenet_like(), set));
  const auto moved = run_moving(job_of(lenet_like(), set), {{3, move_key("ip2")}, {15, move_key("ip1")}, {30, move_key("conv1")}});
  ASSERT_TRUE(moved.result.ok) << moved.result.error;
  EXPECT_EQ(moved.of("moved"), (std::vector<std::string>{"moved ip2 to local", "moved ip1 to local", "moved conv1 to local"}));
  EXPECT_EQ(moved.result.weights_sha256, still.weights_sha256);
  EXPECT_EQ(moved.of("eval").size(), 4u);
  std::uint64_t step = 0;
  for (const auto& e : moved.events) {
    if (!e.is<step_event>()) continue;
    EXPECT_EQ(e.step, ++step);
  }
  EXPECT_EQ(step, 200u);
}

TEST(embedded_moves, an_impossible_move_is_refused_and_changes_nothing) {
  const overrides set{"train.finish.steps=40"};
  const auto still = embedded(job_of(lenet_like(), set));
  const auto w = run_saying(job_of(lenet_like(), set), {{2, move_key("ip3")},
                                                        {3, move_key("ip1", "n2")},
                                                        {4, {drain_command{"local"}}},
                                                        {5, move_key("ip1")},
                                                        {5, move_key("ip2")}});
  ASSERT_TRUE(w.result.ok) << w.result.error;
  const auto no = w.of("refused");
  ASSERT_EQ(no.size(), 4u);
  EXPECT_EQ(no[0], "no layer 'ip3'; did you mean 'ip1'?");
  EXPECT_EQ(no[1], "no node 'n2' (available: local)");
  EXPECT_EQ(no[2], "node 'local' has the job's coordinator: it cannot be drained");
  EXPECT_EQ(no[3], "another move is under way: moved ip1 to local");
  EXPECT_EQ(w.result.weights_sha256, still.weights_sha256);
}

// Commands that are given while the plan changes reach the next plan.
TEST(embedded_moves, other_commands_wait_for_the_move_and_take_effect) {
  const auto j = job_of(lenet_like(), {"train.finish.steps=100000000"});
  const auto w = run_saying(j, {{5, move_key("ip1")}, {5, {pause_command{}}}, {5, {resume_command{}}}, {5, {stop_command{}}}});
  EXPECT_TRUE(w.result.ok && w.result.stopped) << w.result.error;
  EXPECT_EQ(w.of("moved").size(), 1u);
  EXPECT_LT(w.result.step, 30u);
}

TEST(embedded_moves, a_paused_job_moves_and_stays_paused) {
  const auto still = embedded(job_of(lenet_like(), {"train.finish.steps=30"}));
  std::vector<std::string> kinds;
  embedded_options o;
  o.threads = 2;
  embedded_run* self = nullptr;
  o.on_event = [&](const event_effect& e) {
    if (!e.is<step_event>()) kinds.push_back(name_of(e).name);
    if (e.is<step_event>() && e.step == 5) self->command({pause_command{}});
    if (e.is<paused_event>()) self->command(move_key("ip1"));
    if (e.is<moved_event>()) self->command({checkpoint_command{}});
    if (e.is<checkpoint_event>()) self->command({resume_command{}});  // a paused job writes it without a further step
  };
  embedded_run run(job_of(lenet_like(), {"train.finish.steps=30"}), std::move(o));
  self = &run;
  const auto r = run.run();
  EXPECT_TRUE(r.ok) << r.error;
  EXPECT_EQ(kinds, (std::vector<std::string>{"paused", "moved", "checkpoint", "resumed", "eval", "done"}));
  EXPECT_EQ(r.weights_sha256, still.weights_sha256);
}

TEST(embedded_moves, repl_commands_move_layers) {
  auto backend = make_embedded_backend([](const std::string&) {});
  repl_session session(*backend, false);
  const std::string text = lenet_like();
  ASSERT_EQ(session.run("submit small.toml train.finish.steps=100000000 job.name=endless_moves", &text).how, repl_reply::kind::ok);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (backend->view().jobs.at(0).step == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  const auto follow = [&](const std::string& line) {
    auto r = session.run(line);
    std::string again = r.next;  // a terminal waits between its polls and gives up after a number of them; here the clock decides
    const auto goes_on = [&] { return !r.next.empty() || r.text.find("has not executed the command yet") != std::string::npos; };
    while (goes_on() && std::chrono::steady_clock::now() < until) {
      if (!r.next.empty()) again = r.next;
      std::this_thread::yield();
      r = session.run(again);
    }
    return r;
  };
  const auto moved = follow("move ip1 local");
  EXPECT_EQ(moved.how, repl_reply::kind::ok) << moved.text;
  EXPECT_TRUE(moved.text.starts_with("moved ip1 to local at step ")) << moved.text;
  EXPECT_NE(follow("move ip9 local").text.find("no layer 'ip9'"), std::string::npos);
  EXPECT_EQ(follow("move ip1").how, repl_reply::kind::usage);
  EXPECT_NE(session.run("_complete move ip").text.find("ip2"), std::string::npos);
  EXPECT_NE(session.run("_complete drain lo").text.find("local"), std::string::npos);
  EXPECT_NE(session.run("help").text.find("add-node"), std::string::npos);
  session.run("stop");
  backend.reset();
  std::remove("endless_moves.checkpoint.safetensors");
}

// Roles of a later plan receive no message of an earlier one, not even from roles of other nodes
// that have not sent before.
TEST(embedded_moves, roles_of_a_later_plan_drop_messages_of_an_earlier_plan) {
  using namespace testing_actors;
  written_host w;
  w.host.spawn(
      1, seats(make_seat(0, [](const envelope& e, time_point, effects& out) { out.event(note(std::to_string(e.h.incarnation))); })),
      {0, 1}, 0, 2);
  for (std::uint32_t plan_generation : {0, 1, 2, 3}) {
    auto e = make_envelope(1, 0, credit{1});
    e.h.src = role_id{1};
    e.h.incarnation = plan_generation;
    w.host.deliver(e);
  }
  EXPECT_TRUE(w.events.wait_for(2));
  EXPECT_EQ(w.events.lines(), (std::vector<std::string>{"note 2", "note 3"}));
  EXPECT_EQ(w.host.counts().old_incarnation, 2u);
}

}  // namespace
}  // namespace troupe
