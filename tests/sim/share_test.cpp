// Parameters that several layers share (model/share.hpp).
#include <cmath>
#include <random>
#include <set>

#include "runtime/model/share.hpp"
#include "tests/sim/mode_run.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing::shared_parameters {
namespace {

using named = std::vector<std::pair<std::string, tensor>>;

// `left` owns weight and bias, which `right` uses too; they read different tensors.
job_spec twins(const std::string& share = "left", shape_of_job s = {}) {
  auto j = small_spec(s);
  j.precision = "f64";
  j.layers[2] = layer_of("pool1", "max_pool", {"relu1"}, with({{"kernel", std::int64_t{2}}, {"stride", std::int64_t{2}}}));
  j.layers.insert(j.layers.begin() + 3, layer_of("bent", "tanh", {"pool1"}));
  j.layers[5].inputs = {"bent"};
  j.layers[5].share = share;
  return j;
}

std::shared_ptr<prepared_job> prepared(const job_spec& s, std::uint32_t nodes = 1) {
  auto made = prepare_job(s, shared_tables(), nodes_named(nodes));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

run_result ran(const std::shared_ptr<prepared_job>& j, std::uint64_t seed = 1) {
  sim::world_config c;
  c.seed = seed;
  c.dev = cpu().get();
  return run_in_world(j, c);
}

std::vector<double> values(const named& all, const std::string& name) {
  for (const auto& [n, t] : all)
    if (n == name) return {t.data<double>(), t.data<double>() + t.count()};
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

void set_mode(job_spec& j, const std::string& text) {
  const auto m = mode_choice::of(text);
  j.train.sync = {m.name, options_from_text(m.options, shared_tables()->modes.find(m.name)->specs), {}};
}

TEST(share, one_parameter_is_initialised_stored_and_updated) {
  const auto j = prepared(twins());
  std::vector<std::string> names;
  for (const auto& p : j->graph.params) names.push_back(p.full_name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "left.weight", "left.bias", "score.weight", "score.bias"}));
  EXPECT_EQ(ran(j).weights.size(), names.size());
  const auto only = prepared(twins("left.weight"));
  names.clear();
  for (const auto& p : only->graph.params) names.push_back(p.full_name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "left.weight", "left.bias", "right.bias", "score.weight",
                                             "score.bias"}));
}

// The gradient of a shared parameter is the sum of those of separate parameters with equal values.
TEST(share, gradient_is_the_sum_over_all_uses) {
  for (const char* share : {"left", "left.weight", "left.bias"}) {
    auto one = twins(share, {.steps = 1, .rule = "sgd"});
    one.train.lr = 1, one.train.decay = 0;
    auto two = one;
    two.layers[5].share.clear();
    const auto tied = prepared(one), apart = prepared(two);
    auto begin = initial_weights(*apart, cpu()->host());
    for (auto& [name, t] : begin)
      for (const auto& [other, value] : initial_weights(*tied, cpu()->host()))
        if (name == other || name.substr(name.find('.')) == other.substr(other.find('.'))) {
          const bool uses =
              name.starts_with("right.") && other.starts_with("left.") && (std::string(share) == "left" || other == share);
          if (name == other || uses) t = value;
        }
    begin_at(*apart, 0, begin);
    named own;
    for (const auto& p : tied->graph.params)
      for (const auto& b : begin)
        if (b.first == p.full_name) own.push_back(b);
    begin_at(*tied, 0, own);
    const auto with = ran(tied).weights, without = ran(apart).weights;
    for (const auto& p : tied->graph.params) {
      const auto now = values(with, p.full_name), at_first = values(begin, p.full_name), then = values(without, p.full_name);
      const bool is_shared = p.full_name.starts_with("left.") && (std::string(share) == "left" || p.full_name == share);
      const auto other = is_shared ? values(without, "right" + p.full_name.substr(4)) : at_first;
      double moved = 0;
      for (std::size_t i = 0; i < now.size(); ++i) {
        const auto sum = (at_first[i] - then[i]) + (is_shared ? at_first[i] - other[i] : 0.0);
        ASSERT_NEAR(at_first[i] - now[i], sum, 1e-12) << share << " " << p.full_name << " " << i;
        moved = std::max(moved, std::abs(sum));
      }
      EXPECT_GT(moved, 1e-6) << p.full_name;
    }
  }
}

// A layer's weights used three times, one of the uses in tests too.
job_spec three_uses(shape_of_job s) {
  auto j = small_spec(s);
  using i = std::int64_t;
  j.layers.erase(j.layers.begin() + 5, j.layers.end());
  const auto add = [&](const std::string& name, const std::string& type, std::vector<std::string> in, options o,
                       const std::string& share = {}) {
    j.layers.push_back(layer_of(name, type, std::move(in), std::move(o)));
    j.layers.back().share = share;
  };
  add("again", "linear", {"right"}, with({{"outputs", i{6}}}));
  add("third", "linear", {"again"}, with({{"outputs", i{6}}}), "again");
  add("fourth", "linear", {"left"}, with({{"outputs", i{6}}}), "again.weight");
  add("sum", "eltwise", {"third", "fourth"}, {});
  add("drop", "dropout", {"sum"}, {});
  add("score", "linear", {"drop"}, with({{"outputs", i{4}}}));
  add("loss", "softmax_loss", {"score", "label"}, {});
  add("accuracy", "accuracy", {"score", "label"}, {});
  j.layers.back().phase = "test";
  return j;
}

std::string draw_shape(std::uint64_t seed, job_spec& j, std::uint32_t& nodes) {
  std::mt19937_64 g(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(g() % n); };
  shape_of_job s;
  s.workers = 1 + below(4), s.shards = 1 + below(3), s.sub_solvers = 1 + below(3);
  s.fuse = below(2) == 0 ? "auto" : "none", s.fuse_layers = below(2) == 0;
  s.eval_every = 2;
  j = three_uses(s);
  nodes = 1 + below(4);
  const char* modes[] = {"bsp", "bsp", "sandblaster"};
  j.train.sync.kind = modes[below(3)];
  set_mode(j, j.train.sync.kind);
  if (j.train.sync.kind == "bsp" && below(3) == 0 && s.workers > 1) j.train.reducer = "tree";
  if (below(2) == 0) j.train.average.kind = "ema";
  if (below(2) == 0) j.eval.batch = 12;
  for (auto& l : j.layers) {
    if (below(3) == 0) l.recompute = true;
    if (nodes == 1 || j.train.sync.kind != "bsp" || j.train.reducer != "server" || below(3) != 0) continue;
    l.partition = below(2) == 0 ? "none" : "batch";
    l.key_at["partition"] = {};
    for (auto parts = l.partition == "none" ? 1 : 1 + below(3); parts > 0; --parts)
      l.place.push_back("n" + std::to_string(1 + below(nodes)));
  }
  return j.train.sync.kind;
}

TEST(share, weights_have_the_same_bits_for_any_shape_of_a_run) {
  std::set<std::string> kinds;
  for (std::uint64_t seed = 1; seed <= seeds(80); ++seed) {
    job_spec spec;
    std::uint32_t nodes = 1;
    const auto kind = draw_shape(seed, spec, nodes);
    auto alone = three_uses({.eval_every = 2});
    alone.train.average = spec.train.average;
    const auto j = prepared(spec, nodes);
    ASSERT_TRUE(j) << "seed " << seed;
    kinds.insert(j->plan.placed ? "placed" : kind);
    const auto got = ran(j, seed), want = ran(prepared(alone));
    ASSERT_EQ(got.error(), "") << "seed " << seed;
    ASSERT_TRUE(got.bytes() == want.bytes()) << "seed " << seed;
  }
  EXPECT_EQ(kinds.size(), 3u);
}

TEST(share, works_in_every_synchronisation_mode) {
  const auto plain = ran(prepared(three_uses({.rule = "sgd"}))).bytes();
  for (const char* mode : {"ssp staleness=0", "downpour", "easgd alpha=0", "gossip", "hogwild"}) {
    auto j = three_uses({.rule = "sgd"});
    set_mode(j, mode);
    if (std::string(mode) == "downpour") j.train.decay = 0;
    const auto got = ran(prepared(j));
    EXPECT_EQ(got.error(), "") << mode;
    if (std::string(mode).starts_with("ssp")) {
      EXPECT_TRUE(got.bytes() == plain) << mode;
    }
    auto several = three_uses({.workers = 3, .rule = "sgd"});
    set_mode(several, std::string(mode) == "easgd alpha=0"     ? "easgd"
                      : std::string(mode) == "ssp staleness=0" ? "ssp staleness=2"
                                                               : mode);
    if (several.train.sync.kind == "hogwild") several.topology.worker_groups = several.topology.server_groups = 1;
    const auto spread = ran(prepared(several, several.train.sync.kind == "hogwild" ? 1 : 3));
    EXPECT_EQ(spread.error(), "") << mode;
    EXPECT_TRUE(spread.events.back().is<done_event>()) << mode;
  }
}

TEST(share, frozen_parameter_keeps_its_value_in_all_layers) {
  auto j = twins();
  j.train.freeze = {"left.weight"};
  const auto job = prepared(j);
  const auto got = ran(job);
  EXPECT_EQ(values(got.weights, "left.weight"), values(initial_weights(*job, cpu()->host()), "left.weight"));
  EXPECT_NE(values(got.weights, "left.bias"), values(initial_weights(*job, cpu()->host()), "left.bias"));
}

TEST(share, as_if_alone_has_all_parameters) {
  const auto j = prepared(twins("left.weight"));
  for (const auto& l : j->graph.layers) {
    const auto alone = as_if_alone(j->graph, l);
    EXPECT_EQ(alone.in.size(), alone.spec->inputs.size()) << l.name;
    EXPECT_EQ(alone.out.size(), 1u) << l.name;
    std::vector<std::string> names;
    for (auto p : alone.params) names.push_back(j->graph.params[p].full_name);
    if (l.name == "right") {
      EXPECT_EQ(names, (std::vector<std::string>{"left.weight", "right.bias"}));
    }
    if (l.name == "left") {
      EXPECT_EQ(names, (std::vector<std::string>{"left.weight", "left.bias"}));
    }
  }
}

TEST(share, mistakes_are_named_at_the_key) {
  const auto why = [](const std::function<void(job_spec&)>& change) {
    auto j = twins();
    j.layers[5].key_at["share"] = {"job.toml", 7, 9};
    change(j);
    return refusal(j);
  };
  const auto at = [](const std::string& text) { return "job.toml:7:9: layer 'right': " + text; };
  EXPECT_EQ(why([](job_spec&) {}), "");
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].share = "lef"; }), at("unknown layer 'lef'; did you mean 'left'?"));
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].share = "right"; }), at("a layer cannot share parameters with itself"));
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].share = "left.scale"; }),
            at("it shares no parameter with 'left': it has weight, bias, and 'left' has weight, bias"));
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].share = "bent"; }),
            at("it shares no parameter with 'bent': it has weight, bias, and 'bent' has no parameters"));
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].values.values["outputs"] = std::int64_t{5}; }),
            at("its parameter 'weight' has shape 5x27, but 'left.weight' has shape 6x27"));
  EXPECT_EQ(why([](job_spec& j) { j.precision = "bf16"; }),
            at("layers of a bf16 job cannot share parameters: use precision = \"fp32\""));
  EXPECT_EQ(why([](job_spec& j) { j.layers[4].partition = "feature"; }),
            at("layer 'left' is split by feature: parameters can be shared only by layers with partition = \"batch\""));
  EXPECT_EQ(why([](job_spec& j) { j.layers[5].gather = true; }), at("it has gather = true and cannot share parameters"));
  const auto cycle = why([](job_spec& j) { j.layers[0].share = "left"; });
  EXPECT_NE(cycle.find("the layers form a cycle: "), std::string::npos) << cycle;
  EXPECT_NE(cycle.find("a layer with share comes after the layer whose parameters it uses"), std::string::npos) << cycle;
}

}  // namespace
}  // namespace troupe::testing::shared_parameters
