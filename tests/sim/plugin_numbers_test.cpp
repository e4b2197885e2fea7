// Numbers that layers and schedules of plugins return, and with which a job cannot go on: the job
// fails with a text that names what returned them.
#include <gmock/gmock.h>

#include <limits>

#include "ops/layer_support.hpp"
#include "ops/schedule.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

constexpr double no_number = std::numeric_limits<double>::quiet_NaN(), no_end = std::numeric_limits<double>::infinity();

// A metric of scores and labels whose packets have the given weight.
struct weighed_metric final : layer {
  double weight;
  std::int64_t weights;
  weighed_metric(double w, std::int64_t n) : weight(w), weights(n) {}
  shapes infer(const shapes&) const override { return {shape{}}; }
  signatures supported() const override { return alike({distribution::broadcast}, 2); }
  bool is_metric() const override { return true; }
  bool test_phase_only() const override { return true; }
  bool differentiable(std::size_t) const override { return false; }
  tensor mean_weight(context& c, const tensors&) const override {
    auto w = tensor::allocate(c.dev, weights == 1 ? shape{} : shape{weights}, dtype::f32);
    c.dev.fill(weight, w);
    return w;
  }
  void forward(context& c, plan&, const tensors&, const tensors&, tensors& out, saved&) const override {
    c.dev.fill(0.5, backed(c.dev, out[0]));
  }
  void backward(context&, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {}
};

// The given rate at step 2 (counted from 0), before that the base rate.
struct odd_rate final : schedule {
  double rate;
  explicit odd_rate(double r) : rate(r) {}
  double lr(double base, std::uint64_t step) const override { return step == 2 ? rate : base; }
};

std::shared_ptr<const tables> tables_with(double weight, std::int64_t weights, double rate) {
  auto t = stock_tables();
  t.layers.add({.name = "weighed",
                .doc = "",
                .specs = {},
                .make = [=](const options&) { return std::make_unique<weighed_metric>(weight, weights); },
                .cases = {},
                .min_inputs = 2,
                .max_inputs = 2});
  t.schedules.add(
      {.name = "odd", .doc = "", .specs = {}, .make = [=](const options&) { return std::make_unique<odd_rate>(rate); }});
  return std::make_shared<const tables>(std::move(t));
}

std::shared_ptr<prepared_job> job_of_plugin(const std::shared_ptr<const tables>& all, bool weighed, bool odd) {
  auto spec = small_spec({.packets = 2, .steps = 5, .eval_every = 5});
  if (weighed) {
    layer_spec l;
    l.name = "share", l.type = "weighed", l.inputs = {"score", "label"}, l.phase = "test";
    spec.layers.push_back(l);
  }
  if (odd) spec.train.schedule = {"odd", {}, {}};
  auto made = prepare_job(spec, all, nodes_named(1));
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return nullptr;
  }
  return *made;
}

// Returns the text with which a role of the job fails, or the job's error; empty: it ends well.
std::string failure_of(const std::shared_ptr<prepared_job>& j) {
  const auto dev = make_cpu_device();
  sim::world_config config;
  config.seed = 1;
  config.dev = dev.get();
  try {
    return run_in_world(j, config).error();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
}

TEST(numbers_of_plugins, evaluation_fails_when_the_weight_of_a_mean_is_no_weight) {
  for (const double weight : {no_number, no_end, -1.0}) {
    const auto why = failure_of(job_of_plugin(tables_with(weight, 1, 0), true, false));
    EXPECT_THAT(why, HasSubstr("mean_weight() of layer 'share' returned ")) << weight;
    EXPECT_THAT(why, HasSubstr("Return a finite number of at least 0")) << weight;
  }
  EXPECT_THAT(failure_of(job_of_plugin(tables_with(1, 2, 0), true, false)),
              HasSubstr("mean_weight() of layer 'share' returned a tensor of shape"));
  for (const double weight : {0.0, 2.5}) EXPECT_EQ(failure_of(job_of_plugin(tables_with(weight, 1, 0), true, false)), "") << weight;
}

TEST(numbers_of_plugins, job_fails_when_a_schedule_returns_no_rate) {
  for (const double rate : {no_number, no_end, -0.1}) {
    const auto job = job_of_plugin(tables_with(1, 1, rate), false, true);
    EXPECT_THAT(failure_of(job), HasSubstr("schedule 'odd' gives a learning rate of ")) << rate;
    EXPECT_THAT(failure_of(job), HasSubstr(" for step 3, from a base rate of 0.05")) << rate;
    plain_loop plain(job, make_cpu_device());
    plain.step();
    plain.step();
    EXPECT_THROW(plain.step(), std::runtime_error) << rate;
  }
  EXPECT_EQ(failure_of(job_of_plugin(tables_with(1, 1, 0), false, true)), "") << "a rate of 0 leaves the weights as they are";
}

struct odd_evaluations final : eval_sampler {
  std::int64_t examples() const override { return -5; }
  std::vector<std::int64_t> indices(std::uint64_t, std::int64_t, std::int64_t) override { return {}; }
};

TEST(numbers_of_plugins, job_is_refused_when_an_eval_sampler_has_fewer_than_0_examples) {
  auto t = stock_tables();
  t.eval_samplers.add({.name = "odd", .doc = "", .specs = {}, .make = [](const options&, const eval_sampler_config&) {
                         return std::make_unique<odd_evaluations>();
                       }});
  auto spec = small_spec({.packets = 2, .steps = 5, .eval_every = 5});
  spec.eval.sampler = {"odd", {}, {}};
  const auto made = prepare_job(spec, std::make_shared<const tables>(std::move(t)), nodes_named(1));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().front().to_string(), HasSubstr("sampler 'odd' announces -5 examples"));
}

}  // namespace
}  // namespace troupe::testing
