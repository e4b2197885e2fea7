// Invariant of re-placement: for any moves, drains and added nodes at any time, a job's weights
// equal those of the job without them.
#include <cmath>
#include <map>
#include <random>

#include "tests/sim/moving.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

std::vector<node_spec> nodes_with_roles(std::uint32_t count) {
  std::vector<node_spec> list(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    list[i].name = "n" + std::to_string(i + 1);
    if (i > 0) list[i].roles = {"worker", "server"};
  }
  return list;
}

std::shared_ptr<prepared_job> prepared_for_moves(const job_spec& s, std::uint32_t nodes) {
  auto made = prepare_job(s, shared_tables(), nodes_with_roles(nodes));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

std::size_t count(const run_result& r, const std::string& kind) {
  return static_cast<std::size_t>(
      std::count_if(r.events.begin(), r.events.end(), [&](const auto& e) { return name_of(e).name == kind; }));
}

// Returns the largest difference of f64 weights divided by the largest value, by tensor.
double difference(const run_result& a, const run_result& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.weights.size(); ++i) {
    double most = 1e-30, off = 0;
    for (std::int64_t k = 0; k < a.weights[i].second.count(); ++k) {
      const auto x = a.weights[i].second.data<double>()[k], y = b.weights.at(i).second.data<double>()[k];
      most = std::max(most, std::abs(x));
      off = std::max(off, std::abs(x - y));
    }
    worst = std::max(worst, off / most);
  }
  return worst;
}

std::vector<double> losses(const run_result& r) {
  std::vector<double> all;
  for (const auto& e : r.events)
    for (const auto& [name, value] : flatten(e).values)
      if (e.is<step_event>() && name == "loss") all.push_back(value);
  return all;
}

sim::world_config world_of(std::uint64_t seed, device* dev) {
  sim::world_config c;
  c.seed = seed;
  c.dev = dev;
  return c;
}

command random_wish(random_net& net, const job_spec& j, std::uint32_t nodes) {
  const auto node = "n" + std::to_string(net.draw(1, nodes));
  switch (net.draw(0, 5)) {
    case 0: return {drain_command{node}};
    case 1: return {add_node_command{node}};
    default: break;
  }
  auto layer = j.layers[static_cast<std::size_t>(net.draw(0, static_cast<std::int64_t>(j.layers.size()) - 1))].name;
  if (net.chance(0.2)) layer += "." + std::to_string(net.draw(0, 2));
  return move_key(layer, node);
}

class moves : public ::testing::Test {
 protected:
  const std::shared_ptr<device> dev = make_cpu_device();
};

// If no layer is split by feature, moves change no bit, with any rule, with evaluations, fused or
// not. (A layer that moves as a whole becomes whole, which changes sums over features.)
TEST_F(moves, random_moves_of_random_nets_at_random_steps_change_no_bit) {
  std::map<std::string, std::uint64_t> kinds;
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; seed <= seeds(300); ++seed) {
    random_net net(seed);
    auto j = net.job();
    const char* rules[] = {"sgd", "momentum", "adam", "nesterov", "rmsprop", "adagrad"};
    const std::string rule = rules[net.draw(0, 5)];
    j.train.rule = {rule, checked({}, shared_tables()->rules.find(rule)->specs), {}};
    j.train.lr = 0.001;
    j.train.finish.steps = 30;
    const auto nodes = static_cast<std::uint32_t>(net.draw(2, 4));
    bool feature = false;
    if (net.chance(0.4)) net.place(j, nodes, feature);
    if (feature && j.precision != "f64") continue;
    j.topology.workers_per_group = net.draw(1, std::min<std::int64_t>(3, j.pipeline.packets));
    for (auto& l : j.layers)
      if (l.place.empty() && !l.fraction.empty()) l.fraction.clear();
    if (!prepare_job(j, shared_tables(), nodes_with_roles(nodes))) continue;
    std::vector<wish> wishes;
    for (auto n = net.draw(1, 8); n > 0; --n)
      wishes.push_back({static_cast<std::uint64_t>(net.draw(0, 24)), random_wish(net, j, nodes)});
    std::stable_sort(wishes.begin(), wishes.end(), [](const auto& a, const auto& b) { return a.after < b.after; });
    const auto still = run_in_world(prepared_for_moves(j, nodes), world_of(seed, dev.get()));
    const auto got = run_moved(prepared_for_moves(j, nodes), wishes, world_of(seed, dev.get()));
    ASSERT_TRUE(got.done && !got.weights.empty())
        << "seed " << seed << " " << (got.events.empty() ? "" : message_of(got.events.back()));
    if (feature) {
      ASSERT_LT(difference(got, still), 1e-6) << "seed " << seed;
      kinds["feature"] += got.moved.size();
      for (const auto& l : j.layers) kinds[l.partition == "input" ? "input" : "other"] += got.moved.size();
    } else {
      ASSERT_EQ(got.bytes(), still.bytes()) << "seed " << seed;
      ASSERT_EQ(losses(got), losses(still)) << "seed " << seed;
    }
    ASSERT_EQ(got.first_uneven, 0u) << "seed " << seed;
    ASSERT_EQ(count(got, "eval"), count(still, "eval")) << "seed " << seed;
    for (const auto& m : got.moved) ++kinds[m.substr(0, m.find(' '))];
    kinds[rule] += got.moved.size();
    refused += got.refused.size();
  }
  for (const char* k : {"moved", "drained", "added", "momentum", "adam", "feature", "input"}) EXPECT_GT(kinds[k], 0u) << k;
  EXPECT_GT(refused, 0u);
}

// If one part of a layer that is split by feature moves, the layer keeps its cut.
TEST_F(moves, moving_a_part_of_a_split_layer_changes_no_bit) {
  shape_of_job s;
  s.workers = 2, s.shards = 2, s.steps = 24, s.rule = "adam";
  auto j = small_spec(s);
  j.layers[3].partition = j.layers[4].partition = "feature";
  j.layers[3].place = {"n1", "n2"};
  j.layers[4].place = {"n3", "n1"};
  const auto still = run_in_world(prepared_for_moves(j, 3), world_of(5, dev.get()));
  const auto got = run_moved(
      prepared_for_moves(j, 3),
      {{2, move_key("left.1", "n3")}, {4, move_key("right.0", "n2")}, {7, {drain_command{"n3"}}}, {9, {add_node_command{"n3"}}}},
      world_of(5, dev.get()));
  EXPECT_EQ(got.moved, (std::vector<std::string>{"moved left.1 to n3", "moved right.0 to n2", "drained n3", "added n3"}));
  EXPECT_EQ(got.bytes(), still.bytes());
}

// A user's settings and the current mode are kept by the next plan.
TEST_F(moves, user_settings_and_mode_survive_a_move) {
  shape_of_job s;
  s.workers = 2, s.shards = 2, s.steps = 30, s.rule = "adam", s.eval_every = 10;
  const auto j = small_spec(s);
  const command slower{set_command{"train.dynamics.lr", 0.001}};
  const std::vector<wish> also{{5, slower}};
  const auto still = run_moved(prepared_for_moves(j, 3), {}, world_of(2, dev.get()), also);
  const auto got = run_moved(prepared_for_moves(j, 3), {{12, move_key("score", "n3")}, {20, {drain_command{"n2"}}}},
                             world_of(2, dev.get()), also);
  const auto never = run_moved(prepared_for_moves(j, 3), {}, world_of(2, dev.get()));
  ASSERT_EQ(got.moved.size(), 2u);
  EXPECT_EQ(got.bytes(), still.bytes());
  EXPECT_NE(got.bytes(), never.bytes()) << "setting the rate has no effect in this test";
  EXPECT_EQ(count(got, "eval"), 3u);
  // To ssp(0), which equals bsp, and back: the next plan begins in the current mode.
  const std::vector<wish> modes{{5, {mode_command{{"ssp", {{"staleness", "0"}}}}}}, {18, {mode_command{{"bsp"}}}}};
  const auto switched = run_moved(prepared_for_moves(j, 3),
                                  {{10, {drain_command{"n3"}}}, {14, {add_node_command{"n3"}}}, {22, move_key("conv1", "n2")}},
                                  world_of(3, dev.get()), modes);
  EXPECT_EQ(switched.moved.size(), 3u);
  EXPECT_EQ(count(switched, "mode"), 2u);
  EXPECT_EQ(switched.bytes(), never.bytes());
}

// Out of lockstep, the weights of a boundary are those after the flush of all workers: the job
// continues from them and ends normally.
TEST_F(moves, jobs_out_of_lockstep_can_move) {
  for (const char* mode : {"ssp staleness=2", "downpour", "easgd tau=3 alpha=0.3", "gossip every=2"}) {
    shape_of_job s;
    s.workers = 2, s.shards = 2, s.steps = 40, s.rule = "sgd", s.eval_every = 10;
    auto spec = small_spec(s);
    amendments a;
    set_mode(a, mode_choice::of(mode));
    spec.train.sync = {a.mode, options_from_text(a.mode_options, shared_tables()->modes.find(a.mode)->specs), {}};
    auto nodes = nodes_with_roles(3);
    auto made = prepare_job(spec, shared_tables(), nodes);
    ASSERT_TRUE(made) << mode << made.error().front().message;
    const auto got = run_moved(*made, {{5, {drain_command{"n2"}}}, {15, move_key("score", "n3")}, {20, {add_node_command{"n2"}}}},
                               world_of(4, dev.get()));
    ASSERT_FALSE(got.events.empty());
    EXPECT_TRUE(got.events.back().is<done_event>()) << mode << ": " << message_of(got.events.back());
    EXPECT_EQ(got.moved, (std::vector<std::string>{"drained n2", "added n2"})) << mode;
    EXPECT_GE(count(got, "eval"), 3u) << mode;
    ASSERT_EQ(got.refused.size(), 1u) << mode;
    EXPECT_NE(got.refused[0].find("needs every layer on the node of every worker"), std::string::npos) << got.refused[0];
  }
}

TEST_F(moves, impossible_commands_are_refused_with_the_reason) {
  shape_of_job s;
  s.workers = 2, s.steps = 3;
  auto spec = small_spec(s);
  spec.layers[3].partition = "feature";
  spec.layers[3].place = {"n1", "n2"};
  const auto j = prepared_for_moves(spec, 3);
  const auto why = [&](const command& c, const amendments& a = {}) {
    auto r = amended(*j, a, c);
    return !r ? r.error().text : std::string();
  };
  EXPECT_EQ(why(move_key("scroe", "n2")), "no layer 'scroe'; did you mean 'score'?");
  EXPECT_EQ(why(move_key("score", "n7")), "no node 'n7'; did you mean 'n1'? (available: n1, n2, n3)");
  EXPECT_EQ(why(move_key("conv1.0", "n2")), "layer 'conv1' is on the node of every worker: it has no parts to move");
  EXPECT_EQ(why(move_key("left.2", "n2")), "layer 'left' has 2 parts, counted from 0");
  EXPECT_EQ(why(move_key("left.1", "n2")), "layer 'left.1' is on n2 already");
  EXPECT_EQ(why({drain_command{"n1"}}), "node 'n1' has the job's coordinator: it cannot be drained");
  EXPECT_EQ(why({add_node_command{"n2"}}), "node 'n2' is not drained: the job may use it already");
  amendments two;
  two.without = {"n2"};
  EXPECT_EQ(why({drain_command{"n2"}}, two), "node 'n2' is drained already");
  EXPECT_EQ(why(move_key("score", "n2"), two), "the job does not use node 'n2': `add-node n2` makes it usable again");
  EXPECT_EQ(why(move_key("left.1", "n3")), "");
  EXPECT_EQ(why(move_key("left", "n2")), "");
}

}  // namespace
}  // namespace troupe::testing
