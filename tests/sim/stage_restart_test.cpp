// A stage of a pipeline is killed at each phase of a packet: the messages until the packet has
// passed, and bounds of the retained packets.
#include "runtime/stage/stage.hpp"
#include "tests/sim/killing.hpp"

namespace troupe::testing {
namespace {

sim::world_config quiet_world() {
  sim::world_config c;
  c.seed = 1;
  c.dev = cpu().get();
  c.network.least = c.network.most = std::chrono::microseconds(10);
  c.compute.floor = std::chrono::microseconds(100);
  return c;
}

role_id stage_of(const job_plan& p, const std::string& layer) {
  for (const auto& r : p.roles)
    if (r.kind == role_kind::stage && r.name.substr(r.name.find('/') + 1) == layer) return r.id;
  return no_role;
}

struct killed_run {
  std::vector<std::string> said;  // messages to and from the stage, from its restart to the end of the step
  std::vector<std::pair<std::string, tensor>> weights;
  std::string error;
  bool done = false;
};

// Kills the middle of three stages for 50 us at the first delivery of step 1 for which `now_is`
// returns true.
killed_run kill_when(const std::shared_ptr<prepared_job>& j, const std::function<bool(const envelope&, role_id)>& now_is) {
  const auto victim = stage_of(j->plan, "a1..r1");
  sim::world w(quiet_world());
  const auto make = [&](role_id r, std::uint32_t incarnation) { return make_role(j, r, incarnation); };
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make(r.id, 0));
  w.remake = make;
  killed_run out;
  bool killed = false, back = false, over = false;
  std::map<std::tuple<role_id, role_id, std::size_t, std::uint64_t>, msg_id> named;  // repeated messages keep their msg_id
  w.on_deliver = [&](const envelope& e, time_point) {
    if (!killed && e.h.step == 1 && now_is(e, victim)) {
      killed = true;
      w.at(w.now() + std::chrono::microseconds(1), [&] {
        w.crash(victim);
        w.at(w.now() + std::chrono::microseconds(50), [&] { back = true, w.restart(victim); });
      });
    }
    const bool trains = e.h.phase == static_cast<std::uint8_t>(phase::train);
    if (trains && (std::holds_alternative<forward>(e.body) || std::holds_alternative<backward>(e.body))) {
      EXPECT_EQ(named.try_emplace({e.h.src, e.h.dst, e.body.index(), e.h.step}, e.h.id).first->second, e.h.id);
    }
    if (!back || over || (e.h.src != victim && e.h.dst != victim) || e.h.src == e.h.dst) return;
    over = e.h.src == victim && e.h.step == 2;  // the next step has passed the stage
    const auto name = [&](role_id r) { return r == no_role ? std::string("host") : j->plan[r].name; };
    if (over) return;
    out.said.push_back(name(e.h.src) + " -> " + name(e.h.dst) + " " + name_of(e.body) + " " + std::to_string(e.h.step) + "/" +
                       std::to_string(e.h.version) + " attempt " + std::to_string(e.h.attempt));
  };
  w.on_event = [&](const event_effect& e) {
    if (e.is<error_event>()) out.error = message_of(e);
    out.done = out.done || e.is<done_event>() || e.is<error_event>();
  };
  w.on_store = [&](const store_effect& s) { out.weights = s.named; };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(1'000'000, [&] { return out.done; }) && out.done && killed);
  EXPECT_EQ(out.error, "");
  return out;
}

std::string bytes_of_weights(const std::vector<std::pair<std::string, tensor>>& weights) {
  run_result r;
  r.weights = weights;
  return r.bytes();
}

std::shared_ptr<prepared_job> three_stages() {
  chain_shape c;
  c.replicas = {1, 1, 1};
  c.weights = "drain";
  c.steps = 3;
  c.fuse = "auto";
  const auto j = prepared(chain_spec(c), 3);
  j->restarts = true;
  return j;
}

void expect_said(const std::vector<std::string>& said, const std::vector<std::string>& want) {
  std::string got;
  for (const auto& s : said) got += "\"" + s + "\",\n";
  EXPECT_EQ(said, want) << got;
}

TEST(stage_restart, killed_before_forward_replays_the_packet) {
  const auto j = three_stages();
  const auto got =
      kill_when(j, [](const envelope& e, role_id v) { return e.h.dst == v && std::holds_alternative<forward>(e.body); });
  expect_said(got.said, {
                            "host -> host1/a1..r1 start 0/0 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 start 0/0 attempt 1",
                            "host1/a1..r1 -> host1 start 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss start 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/0 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/1 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 backward 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss forward 0/0 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 credit 0/0 attempt 0",
                            "host1/a1..r1 -> host2/a2..loss forward 1/1 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 backward 0/0 attempt 1",
                            "host1/a1..r1 -> host1 gradient 0/0 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 0/0 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 backward 1/1 attempt 0",
                            "host2/a2..loss -> host1/a1..r1 credit 1/1 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 backward 1/1 attempt 1",
                            "host1/a1..r1 -> host1 gradient 1/1 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/2 attempt 0",
                            "host0/a0..r0 -> host1/a1..r1 forward 2/2 attempt 0",
                        });
  EXPECT_EQ(bytes_of_weights(got.weights), run_in_world(j, quiet_world()).bytes());
}

TEST(stage_restart, killed_between_forward_and_backward_replays_the_packet) {
  const auto j = three_stages();
  const auto got =
      kill_when(j, [](const envelope& e, role_id v) { return e.h.src == v && std::holds_alternative<forward>(e.body); });
  expect_said(got.said, {
                            "host -> host1/a1..r1 start 0/0 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 start 0/0 attempt 1",
                            "host1/a1..r1 -> host1 start 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss start 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/0 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/1 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 backward 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss forward 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss forward 1/1 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 credit 0/0 attempt 0",
                            "host2/a2..loss -> host1/a1..r1 backward 1/1 attempt 0",
                            "host2/a2..loss -> host1/a1..r1 credit 1/1 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 backward 0/0 attempt 1",
                            "host1/a1..r1 -> host1 gradient 0/0 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 0/0 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 backward 1/1 attempt 1",
                            "host1/a1..r1 -> host1 gradient 1/1 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/2 attempt 0",
                            "host0/a0..r0 -> host1/a1..r1 forward 2/2 attempt 0",
                        });
  EXPECT_EQ(bytes_of_weights(got.weights), run_in_world(j, quiet_world()).bytes());
}

TEST(stage_restart, killed_after_backward_replays_the_packet) {
  const auto j = three_stages();
  const auto got =
      kill_when(j, [](const envelope& e, role_id v) { return e.h.src == v && std::holds_alternative<backward>(e.body); });
  expect_said(got.said, {
                            "host -> host1/a1..r1 start 0/0 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 start 0/0 attempt 1",
                            "host1/a1..r1 -> host1 start 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss start 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 0/0 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/0 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/1 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 backward 0/0 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 backward 1/1 attempt 1",
                            "host1 -> host1/a1..r1 layer_weights 0/2 attempt 0",
                            "host1/a1..r1 -> host2/a2..loss forward 0/0 attempt 1",
                            "host1/a1..r1 -> host2/a2..loss forward 1/1 attempt 1",
                            "host2/a2..loss -> host1/a1..r1 credit 0/0 attempt 0",
                            "host2/a2..loss -> host1/a1..r1 credit 1/1 attempt 0",
                            "host1/a1..r1 -> host0/a0..r0 backward 0/0 attempt 1",
                            "host1/a1..r1 -> host1 gradient 0/0 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 0/0 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 backward 1/1 attempt 1",
                            "host1/a1..r1 -> host1 gradient 1/1 attempt 1",
                            "host1/a1..r1 -> host0/a0..r0 credit 1/1 attempt 1",
                            "host0/a0..r0 -> host1/a1..r1 forward 2/2 attempt 0",
                        });
  EXPECT_EQ(bytes_of_weights(got.weights), run_in_world(j, quiet_world()).bytes());
}

TEST(stage_restart, kills_change_no_bit_with_stash_and_eight_packets_in_flight) {
  chain_shape c;
  c.weights = "stash";
  c.packets = 2;
  c.sub_solvers = 4;  // 4 x (1 step of delay + 1)
  c.steps = 10;
  const auto j = prepared(chain_spec(c), 4);
  j->restarts = true;
  EXPECT_GE(j->plan.in_flight(), 8u);
  const auto calm = run_in_world(j, quiet_world());
  for (const char* layer : {"a0", "a1", "a2", "a3", "r1"})
    for (int at = 1; at <= 12; ++at) {
      mode_run r{.job = j, .config = quiet_world()};
      const std::vector<killing> one{
          {{stage_of(j->plan, layer)}, false, std::chrono::microseconds(500 * at), std::chrono::microseconds(200)}};
      r.prepare = [&](sim::world& w) { kill_in(w, one, j->plan); };
      const auto got = run(r);
      ASSERT_EQ(got.violation, "") << layer << " at " << at;
      ASSERT_EQ(got.bytes(), calm.bytes()) << layer << " at " << at;
    }
}

// Retained packets are released: their number does not depend on the length of the job.
TEST(stage_restart, retained_packets_do_not_grow_with_the_steps) {
  const auto max_kept = [](std::uint64_t steps, const char* weights) {
    chain_shape c;
    c.weights = weights;
    c.packets = 4;
    c.sub_solvers = 2;
    c.steps = steps;
    c.eval_every = 3;
    const auto j = prepared(chain_spec(c), 4);
    j->restarts = true;
    sim::world w(quiet_world());
    for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
    bool done = false;
    std::size_t most = 0;
    w.on_event = [&](const event_effect& e) { done = done || e.is<done_event>(); };
    w.on_deliver = [&](const envelope& e, time_point) {
      if (const auto* s = dynamic_cast<const stage*>(w.find(e.h.dst))) most = std::max(most, s->kept());
    };
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    w.inject(go);
    EXPECT_TRUE(w.run(2'000'000, [&] { return done; }) && done);
    const std::size_t round = 7;  // packets of 13 examples, 2 per packet
    EXPECT_LE(most, (j->plan.window() + j->plan.warm_up + 1) * c.packets + round);
    return most;
  };
  for (const char* weights : {"drain", "stash"}) {
    const auto few = max_kept(12, weights);
    EXPECT_GT(few, 0u);
    EXPECT_EQ(few, max_kept(60, weights)) << weights;
  }
}

TEST(stage_restart, retains_nothing_if_the_host_does_not_restart_roles) {
  const auto j = three_stages();
  j->restarts = false;
  sim::world w(quiet_world());
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  bool done = false;
  w.on_event = [&](const event_effect& e) { done = done || e.is<done_event>(); };
  w.on_deliver = [&](const envelope& e, time_point) {
    const auto* s = dynamic_cast<const stage*>(w.find(e.h.dst));
    EXPECT_EQ(s ? s->kept() : 0, 0u);
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(1'000'000, [&] { return done; }) && done);
}

}  // namespace
}  // namespace troupe::testing
