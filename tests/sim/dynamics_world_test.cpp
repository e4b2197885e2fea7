// Dynamics and finish conditions through the roles: settings of the job file reach the rule of
// every parameter, each rule equals the plain loop bit for bit for any workers and shards, and
// finish conditions end the job.
#include <cmath>
#include <functional>

#include "ops/tensor_values.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// A rule that does not change the weights and records its arguments.
struct announced {
  std::int64_t elements;
  rule_step step;
};
struct recorder final : rule {
  std::shared_ptr<std::vector<announced>> log;
  void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor&, tensor& weight_out, const tensors&,
              tensors&) const override {
    weight_out.back(dev);
    dev.copy(weight_in, weight_out);
    log->push_back({weight_in.count(), now});
  }
};

std::shared_ptr<prepared_job> prepared_here(job_spec s, tables all = stock_tables()) {
  node_spec here;
  here.name = "n1";
  auto made = prepare_job(std::move(s), std::make_shared<const tables>(std::move(all)), {here});
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *made;
}

run_result run_here(const std::shared_ptr<prepared_job>& j) {
  const auto dev = make_cpu_device();
  sim::world_config c;
  c.seed = 11;
  c.dev = dev.get();
  return run_in_world(j, c);
}

std::string plain_bytes(const std::shared_ptr<prepared_job>& j, std::uint64_t steps) {
  plain_loop loop(j, make_cpu_device());
  while (loop.steps() < steps) loop.step();
  run_result r;
  r.weights = loop.weights();
  return r.bytes();
}

layer_spec& layer_named(job_spec& s, const std::string& name) {
  for (auto& l : s.layers)
    if (l.name == name) return l;
  return s.layers.front();
}

tables with_recorder(const std::shared_ptr<std::vector<announced>>& log) {
  auto all = stock_tables();
  all.rules.add({.name = "recorder", .doc = "", .specs = {}, .make = [log](const options&) {
                   auto r = std::make_unique<recorder>();
                   r->log = log;
                   return r;
                 }});
  return all;
}

TEST(dynamics_world, every_setting_reaches_the_rule_of_every_parameter) {
  auto log = std::make_shared<std::vector<announced>>();
  const auto all = with_recorder(log);
  shape_of_job shape;
  shape.steps = 6;
  auto s = small_spec(shape);
  s.train.rule = {"recorder", {}, {}};
  s.train.lr = 0.5;
  s.train.decay = 0.25;
  s.train.schedule = {
      "fixed_step", checked(with({{"at", std::vector<std::int64_t>{5}}}), all.schedules.find("fixed_step")->specs), {}};
  s.train.warmup = {4, 0.5};
  s.train.lr_scale = "sqrt";
  s.train.base_batch = s.data.batch / 4;
  s.train.clip.value = 3;
  layer_named(s, "score").lr_scales = {1, 2};
  layer_named(s, "score").decay_scales = {250, 0};
  layer_named(s, "conv1").lr_scale = 4;
  const auto j = prepared_here(s, all);
  ASSERT_TRUE(j && run_here(j).done);
  const std::vector<double> factor{0.5, 0.625, 0.75, 0.875, 1, 0.1};  // warm-up, then the schedule
  const auto check = [&](std::int64_t elements, double lr_scale, double decay_scale) {
    std::uint64_t seen = 0;
    for (const auto& t : *log) {
      if (t.elements != elements) continue;
      EXPECT_EQ(t.step.updates, seen);
      EXPECT_EQ(t.step.step, seen);
      EXPECT_DOUBLE_EQ(t.step.lr, 2 * 0.5 * factor.at(seen) * lr_scale) << "step " << seen << ", " << elements << " elements";
      EXPECT_EQ(t.step.decay, 0.25 * decay_scale);
      EXPECT_EQ(t.step.clip_value, 3);
      EXPECT_EQ(t.step.grad_scale, 1.0 / shape.packets);
      ++seen;
    }
    EXPECT_EQ(seen, 6u) << elements << " elements";
  };
  check(24, 1, 250);  // score.weight
  check(4, 2, 0);     // score.bias
  check(27, 4, 1);    // conv1.weight
  check(3, 4, 1);     // conv1.bias
  log->clear();
  plain_bytes(j, 6);
  check(24, 1, 250);
  check(4, 2, 0);
}

// By default the slopes of prelu and the biases of an rbm do not decay. The scales in a job
// override this, for all parameters of a layer or one by one.
TEST(dynamics_world, decay_scale_of_the_job_overrides_the_layers_own) {
  auto log = std::make_shared<std::vector<announced>>();
  const auto all = with_recorder(log);
  const auto decays = [&](const std::function<void(layer_spec & slopes, layer_spec & machine)>& write) {
    auto s = small_spec({});
    s.train.rule = {"recorder", {}, {}};
    s.train.decay = 0.25;
    s.layers.push_back(layer_of("slopes", "prelu", {"score"}, with({{"shared", true}})));
    s.layers.push_back(layer_of("machine", "rbm", {"slopes"}, with({{"units", std::int64_t{5}}})));
    s.layers.push_back(layer_of("hidden", "euclidean", {"machine.1", "machine.1"}));
    s.layers.push_back(layer_of("seen", "euclidean", {"machine.2", "slopes"}));
    write(s.layers[s.layers.size() - 4], s.layers[s.layers.size() - 3]);
    std::vector<double> found;  // of slopes, weight and bias
    for (const bool plain : {false, true}) {
      log->clear();
      const auto j = prepared_here(s, all);
      if (!j) return found;
      plain ? void(plain_bytes(j, 1)) : void(run_here(j));
      std::vector<double> mine;
      for (const std::int64_t elements : {1, 20, 5})
        for (const auto& t : *log)
          if (t.elements == elements) {
            mine.push_back(t.step.decay / 0.25);
            break;
          }
      EXPECT_TRUE(!plain || mine == found) << "the plain loop has other decays";
      found = mine;
    }
    return found;
  };
  using list = std::vector<double>;
  EXPECT_EQ(decays([](auto&, auto&) {}), (list{0, 1, 0}));
  EXPECT_EQ(decays([](auto& slopes, auto& machine) { slopes.decay_scale = 3, machine.decay_scale = 0.5; }), (list{3, 0.5, 0.5}));
  EXPECT_EQ(decays([](auto& slopes, auto& machine) {
              slopes.decay_scales = {2}, machine.decay_scales = {1, 4, 0};
            }),
            (list{2, 1, 4}));
  EXPECT_EQ(decays([](auto& slopes, auto& machine) { slopes.lr_scale = 3, machine.lr_scale = 2; }), (list{0, 1, 0}));
}

// The norm over all parameters takes a round between the shards. The bits are those of the plain
// loop for any distribution.
TEST(dynamics_world, clipping_by_norm_equals_the_plain_loop_bit_for_bit) {
  const auto with_shape = [&](std::uint32_t workers, std::uint32_t shards, double norm, const char* mode) {
    shape_of_job s;
    s.workers = workers;
    s.shards = shards;
    auto spec = small_spec(s);
    spec.train.clip.norm = norm;
    spec.train.sync = {mode, checked({}, shared_tables()->modes.find(mode)->specs), {}};
    return prepared_here(spec);
  };
  const auto want = plain_bytes(with_shape(1, 1, 0.05, "bsp"), 5);
  ASSERT_FALSE(want.empty());
  EXPECT_NE(run_here(with_shape(1, 1, 0, "bsp")).bytes(), want) << "clipping has no effect in this test";
  for (std::uint32_t shards : {1u, 2u, 3u})
    for (std::uint32_t workers : {1u, 3u}) {
      EXPECT_EQ(run_here(with_shape(workers, shards, 0.05, "bsp")).bytes(), want) << workers << " workers, " << shards << " shards";
      EXPECT_EQ(run_here(with_shape(workers, shards, 0.05, "sandblaster")).bytes(), want)
          << workers << " workers, " << shards << " shards";
    }
}

TEST(dynamics_world, every_rule_equals_the_plain_loop_bit_for_bit) {
  const auto all = stock_tables();
  for (const auto& rule : all.rules.names()) {
    SCOPED_TRACE(rule);
    const auto with_shape = [&](std::uint32_t workers, std::uint32_t shards, bool clip) {
      shape_of_job s;
      s.rule = rule;
      s.workers = workers;
      s.shards = shards;
      auto spec = small_spec(s);
      spec.train.lr = 0.01;
      spec.train.clip.value = clip ? 1e-3 : 0;
      spec.train.warmup = {3, 0.2};
      return prepared_here(spec);
    };
    const auto want = plain_bytes(with_shape(1, 1, true), 5);
    ASSERT_FALSE(want.empty());
    EXPECT_EQ(run_here(with_shape(1, 1, true)).bytes(), want);
    EXPECT_EQ(run_here(with_shape(3, 2, true)).bytes(), want);
    EXPECT_NE(run_here(with_shape(1, 1, false)).bytes(), want) << "clipping has no effect in this test";
  }
}

TEST(dynamics_world, clipping_by_norm_shortens_the_gradient_and_keeps_its_direction) {
  auto all = stock_tables();
  auto mode = *all.modes.find("bsp");
  EXPECT_TRUE(mode.clips_by_norm || ![&] {
    auto s = small_spec({});
    s.train.clip.norm = 1;
    return prepare_job(s, shared_tables(), {node_spec{}});
  }()) << "a mode that cannot clip by norm must refuse it";
  mode.clips_by_norm = true;
  all.modes.add(mode);
  const auto moved = [&](double limit) {
    shape_of_job shape;
    shape.rule = "sgd";
    auto s = small_spec(shape);
    s.train.decay = 0;
    s.train.lr = 0.5;
    s.train.clip.norm = limit;
    const auto j = prepared_here(s, all);
    const auto dev = make_cpu_device();
    plain_loop loop(j, make_cpu_device());
    loop.step();
    std::vector<double> way;
    const auto first = initial_weights(*j, *dev);
    const auto now = loop.weights();
    for (std::size_t p = 0; p < first.size(); ++p) {
      const auto from = at_home(*dev, first[p].second);
      for (std::int64_t i = 0; i < from.count(); ++i) way.push_back(value(now[p].second, i) - value(from, i));
    }
    return way;
  };
  const auto norm = [](const std::vector<double>& x) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    return std::sqrt(squares);
  };
  const auto whole = moved(0), loose = moved(1e6), tight = moved(0.01);
  EXPECT_EQ(whole, loose);
  ASSERT_GT(norm(whole) / 0.5, 0.02);
  EXPECT_NEAR(norm(tight), 0.5 * 0.01, 1e-6);
  double product = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) product += whole[i] * tight[i];
  EXPECT_NEAR(product / norm(whole) / norm(tight), 1, 1e-4);
}

std::size_t steps_of(const run_result& r) {
  std::size_t n = 0;
  for (const auto& e : r.events) n += e.is<step_event>() ? 1 : 0;
  return n;
}

TEST(finish_world, custom_condition_ends_the_job) {
  struct below final : finish_condition {
    std::uint64_t received = 0;
    bool after_step(const finish_facts& f) override {
      EXPECT_EQ(f.steps, ++received) << "each step is reported once, in order";
      EXPECT_TRUE(std::isfinite(f.loss) && f.loss > 0);
      return received == 7;
    }
  };
  auto all = stock_tables();
  all.finishes.add({.name = "seven", .doc = "", .specs = {}, .make = [](const options&, const finish_context&) {
                      return std::make_unique<below>();
                    }});
  auto s = small_spec({});
  s.train.finish = {};
  s.train.finish.steps = 1000;
  s.train.finish.custom = choice{"seven", {}, {}};
  const auto r = run_here(prepared_here(s, all));
  EXPECT_TRUE(r.done);
  EXPECT_GE(steps_of(r), 7u);
  EXPECT_LE(steps_of(r), 7u + 3u) << "steps already granted are finished first";
}

TEST(finish_world, patience_and_target_end_the_job_at_an_evaluation) {
  auto s = small_spec({});
  s.eval.every = 4;
  s.train.lr = 0;  // the loss does not improve
  s.train.finish = {};
  s.train.finish.patience = 2;
  EXPECT_EQ(steps_of(run_here(prepared_here(s))), 12u) << "the first evaluation is the best one";
  s.train.finish.patience.reset();
  s.train.finish.target_accuracy = 0.0;
  EXPECT_EQ(steps_of(run_here(prepared_here(s))), 4u);
}

}  // namespace
}  // namespace troupe::testing
