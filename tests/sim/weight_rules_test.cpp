// Weight rules of pipelines (docs/protocols.md; PipeDream, Narayanan et al. 2019, section 3.3): the
// version of the weights that each packet uses.
#include <cmath>

#include "runtime/plain/plain_loop.hpp"
#include "runtime/stage/stage.hpp"
#include "tests/sim/chain_job.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

// A world with random latencies and task times: every seed gives another order of delivery.
sim::world_config world_of(std::uint64_t seed) {
  sim::world_config c;
  c.seed = seed;
  c.dev = cpu().get();
  c.compute.floor = std::chrono::microseconds(100);
  c.compute.kind = sim::straggle::exponential;
  c.compute.spread = 1.0;
  return c;
}

double worst_difference(const std::vector<std::pair<std::string, tensor>>& a,
                        const std::vector<std::pair<std::string, tensor>>& b) {
  double worst = a.size() == b.size() && !a.empty() ? 0 : 1;
  double largest = 1;  // delayed gradients may let weights grow without bound, and rounding grows with them
  for (const auto& [name, t] : a)
    for (std::int64_t k = 0; k < t.count(); ++k) largest = std::max(largest, std::abs(t.data<double>()[k]));
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    for (std::int64_t k = 0; k < a[i].second.count(); ++k)
      worst = std::max(worst, std::abs(a[i].second.data<double>()[k] - b[i].second.data<double>()[k]));
  return worst / largest;
}

// The reference: a plain loop, with weights of every layer that are `by_stage` steps old.
std::vector<std::pair<std::string, tensor>> delayed_loop(const chain_shape& c, const std::vector<std::uint32_t>& by_stage) {
  const auto j = prepared(chain_spec(c, false), 1);
  std::vector<std::uint32_t> delays;
  for (const auto& l : j->graph.layers) {
    const auto digits = l.name == "loss" ? std::string() : l.name.substr(1);
    delays.push_back(digits.empty() ? 0 : by_stage[std::stoul(digits)]);
  }
  plain_loop loop(j, cpu(), delays);
  while (loop.steps() < c.steps) loop.step();
  return loop.weights();
}

std::map<std::string, std::uint32_t> max_versions(const chain_shape& c, std::uint64_t seed) {
  const auto j = prepared(chain_spec(c), nodes_of(c));
  sim::world w(world_of(seed));
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  bool done = false;
  w.on_event = [&](const event_effect& e) { done = done || e.is<done_event>(); };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(2'000'000, [&] { return done; }) && done);
  std::map<std::string, std::uint32_t> most;
  for (const auto& r : j->plan.roles)
    if (const auto* s = dynamic_cast<const stage*>(w.find(r.id)); s && !r.tester && !j->graph.layers[r.layers[0]].params.empty())
      most[r.name.substr(r.name.find('/') + 1)] = s->max_versions();
  return most;
}

TEST(weight_rules, stages_hold_the_versions_of_pipedream) {
  chain_shape c;
  c.replicas = {1, 1, 1, 1};
  EXPECT_EQ(max_versions(c, 1), (std::map<std::string, std::uint32_t>{{"a0", 4}, {"a1", 3}, {"a2", 2}, {"a3", 1}}));
  c.replicas = {2, 1, 1};
  c.packets = c.sub_solvers = 2;
  EXPECT_EQ(max_versions(c, 1), (std::map<std::string, std::uint32_t>{{"a0.0", 2}, {"a0.1", 2}, {"a1", 2}, {"a2", 1}}));
  c.replicas = {3, 1};
  c.packets = c.sub_solvers = 3;
  EXPECT_EQ(max_versions(c, 1), (std::map<std::string, std::uint32_t>{{"a0.0", 2}, {"a0.1", 2}, {"a0.2", 2}, {"a1", 1}}));
  c.weights = "drain";
  EXPECT_EQ(max_versions(c, 1), (std::map<std::string, std::uint32_t>{{"a0.0", 1}, {"a0.1", 1}, {"a0.2", 1}, {"a1", 1}}));
}

TEST(weight_rules, warm_up_is_in_whole_steps_and_does_not_depend_on_fusing) {
  chain_shape c;
  const auto delays = [&] {
    std::vector<std::uint32_t> list;
    const auto j = prepared(chain_spec(c), nodes_of(c));
    for (const auto& l : j->graph.layers) list.push_back(j->plan.delay_of(l.index));
    return list;
  };
  EXPECT_EQ(delays(), (std::vector<std::uint32_t>{3, 3, 2, 2, 1, 1, 0, 0}));
  c.fuse = "auto";
  EXPECT_EQ(delays(), (std::vector<std::uint32_t>{3, 3, 2, 2, 1, 1, 0, 0}));
  c.packets = 2;  // a delay of three packets is two steps
  EXPECT_EQ(delays(), (std::vector<std::uint32_t>{2, 2, 1, 1, 1, 1, 0, 0}));
  c.packets = 4;
  EXPECT_EQ(delays(), (std::vector<std::uint32_t>{1, 1, 1, 1, 1, 1, 0, 0}));
  c.weights = "drain";
  EXPECT_EQ(delays(), std::vector<std::uint32_t>(8, 0));
}

TEST(weight_rules, one_stage_with_stash_or_latest_equals_drain_bit_for_bit) {
  const shape_of_job s{.packets = 4, .workers = 2, .sub_solvers = 2};
  std::map<std::string, std::string> bytes;
  for (const auto* rule : {"drain", "stash", "latest"}) {
    auto spec = small_spec(s);
    spec.pipeline.weights = rule;
    bytes[rule] = run_in_world(prepared(std::move(spec), 2), world_of(1)).bytes();
  }
  EXPECT_FALSE(bytes["drain"].empty());
  EXPECT_EQ(bytes["drain"], bytes["stash"]);
  EXPECT_EQ(bytes["drain"], bytes["latest"]);
}

TEST(weight_rules, stash_equals_a_plain_loop_with_delayed_weights_in_any_order) {
  struct row {
    std::vector<std::uint32_t> replicas;
    std::uint32_t packets;
    std::vector<std::uint32_t> delays;
    std::string fuse;
    std::uint32_t shards;
  };
  for (const auto& r : {row{{1, 1, 1, 1}, 1, {3, 2, 1, 0}, "none", 1}, row{{1, 1, 1, 1}, 1, {3, 2, 1, 0}, "auto", 3},
                        row{{2, 1, 1}, 2, {1, 1, 0}, "none", 2}, row{{3, 1}, 3, {1, 0}, "none", 1},
                        row{{1, 1, 1, 1}, 4, {1, 1, 1, 0}, "auto", 2}}) {
    chain_shape c;
    c.replicas = r.replicas;
    c.packets = c.sub_solvers = r.packets;
    c.fuse = r.fuse;
    c.shards = r.shards;
    const auto want = delayed_loop(c, r.delays);
    const auto j = prepared(chain_spec(c), nodes_of(c));
    std::string first;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {  // five shapes: 200 orders
      const auto got = run_in_world(j, world_of(seed));
      ASSERT_LT(worst_difference(want, got.weights), 1e-12) << "seed " << seed << ", stages " << r.replicas.size();
      if (first.empty()) first = got.bytes();
      ASSERT_EQ(first, got.bytes()) << "seed " << seed;
    }
    // The delays have an effect: without them the weights differ.
    EXPECT_GT(worst_difference(delayed_loop(c, std::vector<std::uint32_t>(r.delays.size(), 0)), want), 1e-6);
  }
}

// Nets with joins, splits and fractions. The delays are taken from the plan; the tests of chains
// above check them.
TEST(weight_rules, stash_of_any_partition_equals_a_plain_loop_with_delayed_weights) {
  int ran = 0, delayed = 0;
  for (std::uint64_t seed = 1; ran < 200; ++seed) {
    random_net net(seed);
    auto whole = net.job();
    whole.precision = "f64";
    whole.train.finish.steps = 8;
    auto cut = whole;
    bool feature = false;
    const auto nodes = static_cast<std::uint32_t>(net.draw(2, 4));
    net.place(cut, nodes, feature);
    cut.pipeline.weights = "stash";
    auto made = prepare_job(cut, shared_tables(), chain_nodes(nodes));
    if (!made) continue;  // more parts than features or packets: refused
    const auto j = *made;
    ++ran;
    delayed += j->plan.warm_up > 0 ? 1 : 0;
    const auto got = run_in_world(j, world_of(seed));
    ASSERT_TRUE(got.done && !got.weights.empty())
        << "seed " << seed << " " << (got.events.empty() ? "" : message_of(got.events.back()));
    plain_loop loop(prepared(whole, 1), cpu(), j->plan.delay);
    while (loop.steps() < 8) loop.step();
    ASSERT_LT(worst_difference(loop.weights(), got.weights), 1e-9) << "seed " << seed;
  }
  EXPECT_GT(delayed, 100);
}

TEST(weight_rules, all_layers_have_one_version_at_evaluations_and_at_the_end) {
  chain_shape c;
  c.packets = c.sub_solvers = 2;
  c.eval_every = 3;
  const auto with = run_in_world(prepared(chain_spec(c), nodes_of(c)), world_of(5));
  c.eval_every = 0;
  const auto without = run_in_world(prepared(chain_spec(c), nodes_of(c)), world_of(5));
  int rounds = 0;
  for (const auto& e : with.events) rounds += e.is<eval_event>() ? 1 : 0;
  EXPECT_EQ(rounds, 4);
  EXPECT_EQ(with.bytes(), without.bytes()) << "evaluations changed the weights";
}

// Returns the counts of a parameter's reads by staleness, from the event at the end.
std::map<std::uint64_t, std::uint64_t> reads_of(const run_result& r, const std::string& parameter) {
  for (const auto& e : r.events)
    if (const auto* s = e.as<staleness_event>())
      for (const auto& row : s->parameters)
        if (row.parameter == parameter) return row.reads;
  return {};
}

TEST(weight_rules, staleness_of_stash_is_the_delay_after_the_warm_up) {
  chain_shape c;
  const auto r = run_in_world(prepared(chain_spec(c), nodes_of(c)), world_of(2));
  using counts = std::map<std::uint64_t, std::uint64_t>;
  EXPECT_EQ(reads_of(r, "a0.weight"), (counts{{0, 1}, {1, 1}, {2, 1}, {3, 9}}));
  EXPECT_EQ(reads_of(r, "a2.weight"), (counts{{0, 1}, {1, 11}}));
  EXPECT_EQ(reads_of(r, "a3.weight"), (counts{{0, 12}}));
}

TEST(weight_rules, staleness_of_latest_is_at_most_the_delay) {
  chain_shape c;
  c.weights = "latest";
  c.steps = 60;
  std::uint64_t late = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto r = run_in_world(prepared(chain_spec(c), nodes_of(c)), world_of(seed));
    for (std::uint32_t s = 0; s < 4; ++s) {
      std::uint64_t all = 0;
      for (const auto& [lag, n] : reads_of(r, "a" + std::to_string(s) + ".weight")) {
        EXPECT_LE(lag, 3 - s) << "stage " << s;
        all += n;
        if (s == 0 && lag > 0) late += n;
      }
      EXPECT_EQ(all, c.steps) << "stage " << s;
    }
  }
  EXPECT_GT(late, 20u * 20u) << "no versions arrived between forward and backward";
}

// Packets in flight between a producer and its consumer: sent, and credit not yet returned.
struct edge_watch {
  std::vector<std::uint32_t> open, max_early, max_late;  // by edge
  std::size_t held_early = 0, held_late = 0;             // largest number of packets in all stages
};

edge_watch watch_edges(const std::shared_ptr<prepared_job>& j, sim::world_config config) {
  sim::world w(config);
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  edge_watch seen;
  const auto edges = j->plan.edges.size();
  seen.open.assign(edges, 0), seen.max_early.assign(edges, 0), seen.max_late.assign(edges, 0);
  std::uint64_t steps = 0;
  bool done = false;
  w.on_event = [&](const event_effect& e) {
    if (e.is<step_event>()) steps = e.step;
    done = done || e.is<done_event>();
  };
  w.on_deliver = [&](const envelope& e, time_point) {
    const bool late = steps >= static_cast<std::uint64_t>(*j->spec.train.finish.steps) / 2;
    if (std::holds_alternative<forward>(e.body)) {
      const auto edge = j->plan[e.h.dst].in_edges[e.h.port];
      auto& most = (late ? seen.max_late : seen.max_early)[edge];
      most = std::max(most, ++seen.open[edge]);
    }
    if (const auto* c = std::get_if<credit>(&e.body)) seen.open[j->plan[e.h.dst].out_edges[e.h.port]] -= c->count;
    std::size_t held = 0;
    for (const auto& r : j->plan.roles) {
      if (r.kind != role_kind::stage) continue;
      const auto s = w.find(r.id)->status();
      held += s.queued + s.in_flight;
    }
    auto& most = late ? seen.held_late : seen.held_early;
    most = std::max(most, held);
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  EXPECT_TRUE(w.run(5'000'000, [&] { return done; }) && done);
  return seen;
}

TEST(weight_rules, slow_stage_throttles_its_source_and_memory_stays_bounded) {
  for (const auto* rule : {"stash", "latest", "drain"}) {
    SCOPED_TRACE(rule);
    chain_shape c;
    c.weights = rule;
    c.packets = 8, c.sub_solvers = 4;
    c.steps = 100;
    const auto j = prepared(chain_spec(c), nodes_of(c));
    auto config = world_of(1);
    config.compute.kind = sim::straggle::none;
    config.compute.slow = {{2, 10.0}};
    const auto seen = watch_edges(j, config);
    for (std::size_t e = 0; e < j->plan.edges.size(); ++e) {
      EXPECT_LE(seen.max_late[e], j->plan.edges[e].credit) << e;
      EXPECT_LE(seen.max_late[e], std::max(seen.max_early[e], j->plan.in_flight())) << e;
    }
    EXPECT_GT(seen.held_early, 0u);
    EXPECT_LE(seen.held_late, seen.held_early) << "more packets are held in the second half of the run than in the first";
    std::uint32_t stages = 0;
    for (const auto& r : j->plan.roles) stages += r.kind == role_kind::stage && !r.tester ? 1 : 0;
    EXPECT_LE(seen.held_late, stages * j->plan.in_flight()) << "the loader's credit bounds them all";
  }
}

TEST(weight_rules, other_modes_refuse_stash) {
  chain_shape c;
  auto spec = chain_spec(c);
  for (auto& l : spec.layers) l.place.clear(), l.partition = "batch", l.key_at.clear();
  spec.train.sync = {"ssp", checked({}, shared_tables()->modes.find("ssp")->specs), {}};
  spec.pipeline.key_at["weights"] = {"job.toml", 7, 11};
  auto made = prepare_job(spec, shared_tables(), chain_nodes(1));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().front().to_string(),
            "job.toml:7:11: weights = \"stash\" needs mode bsp: mode 'ssp' chooses the weights of a step itself");
}

}  // namespace
}  // namespace troupe::testing
