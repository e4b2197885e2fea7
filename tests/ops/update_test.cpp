// Update rules and schedules against their formulas.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/clip.hpp"
#include "ops/rule.hpp"
#include "ops/schedule.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::tensor_of;
using test::values_of;

std::unique_ptr<rule> make_rule(const char* name, options given = {}) {
  rule_registry r;
  add_stock_rules(r);
  return r.find(name)->make(check_options(given, r.find(name)->specs));
}
double rate(const char* name, options given, std::uint64_t step) {
  schedule_registry r;
  add_stock_schedules(r);
  return r.find(name)->make(check_options(given, r.find(name)->specs))->lr(0.5, step);
}

// Three steps of one weight with gradients 1, 2, 3 (half of the given ones) from w = 1, lr 0.1,
// decay 0.01.
double three_steps(const rule& r) {
  const auto dev = make_cpu_device();
  tensor w = tensor_of<double>(*dev, {1}, {1});
  tensors states;
  for (std::size_t s = 0; s < r.states().size(); ++s) states.push_back(tensor_of<double>(*dev, {1}, {0}));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const tensor g = tensor_of<double>(*dev, {1}, {2.0 * (1.0 + static_cast<double>(step))});
    tensor next = tensor::declare(shape{1}, dtype::f64);
    tensors next_states(states.size(), tensor::declare(shape{1}, dtype::f64));
    r.update(*dev, {.lr = 0.1, .decay = 0.01, .grad_scale = 0.5, .step = step}, w, g, next, states, next_states);
    w = next;
    states = next_states;
  }
  return values_of(w)[0];
}

TEST(rules, follow_their_formulas) {
  double plain = 1, heavy = 1, v = 0, nesterov = 1, u = 0;
  for (const double g : {1.0, 2.0, 3.0}) {
    plain -= 0.1 * (g + 0.01 * plain);
    v = 0.9 * v + (g + 0.01 * heavy);
    heavy -= 0.1 * v;
    const double d = g + 0.01 * nesterov;
    u = 0.9 * u + d;
    nesterov -= 0.1 * (d + 0.9 * u);
  }
  EXPECT_DOUBLE_EQ(three_steps(*make_rule("sgd")), plain);
  EXPECT_DOUBLE_EQ(three_steps(*make_rule("momentum")), heavy);
  EXPECT_DOUBLE_EQ(three_steps(*make_rule("nesterov")), nesterov);
  EXPECT_DOUBLE_EQ(three_steps(*make_rule("momentum", {{{"momentum", 0.0}}})), plain);
}

TEST(rules, name_their_states_and_options) {
  EXPECT_TRUE(make_rule("sgd")->states().empty());
  EXPECT_EQ(make_rule("momentum")->states(), std::vector<std::string>{"momentum"});
  EXPECT_EQ(make_rule("nesterov")->states(), std::vector<std::string>{"momentum"});
  EXPECT_THROW(make_rule("momentum", {{{"momentum", 1.5}}}), option_error);
}

struct named_case {
  std::string rule;
  options given;
};
// Every stock rule, and the variants of those with options.
std::vector<named_case> every_rule() {
  std::vector<named_case> all{{"rmsprop", {{{"centered", true}}}},
                              {"rmsprop", {{{"momentum", 0.9}}}},
                              {"rmsprop", {{{"centered", true}, {"momentum", 0.9}}}}};
  rule_registry r;
  add_stock_rules(r);
  for (const auto& name : r.names()) all.push_back({name, {}});
  return all;
}

const rule_step some_step{
    .lr = 0.1, .decay = 1e-3, .decay_l1 = 2e-3, .grad_scale = 0.5, .clip_value = 0.6, .step = 90, .updates = 7};

// One update of 101 elements, sliced at `cuts`, in place or not. Returns the bytes of weights and
// states.
std::string one_update(device& dev, const rule& r, dtype type, const std::vector<std::int64_t>& cuts, bool in_place) {
  const auto make = [&](std::uint64_t key) {
    tensor t = test::gaussian(dev, {101}, key, type);
    dev.map(unary::absolute, 0, t, t);  // mean squares are not negative
    return t;
  };
  tensor w = make(1), g = test::gaussian(dev, {101}, 2, type), w_out = in_place ? w : test::empty(dev, {101}, type);
  tensors states, states_out;
  for (std::size_t i = 0; i < r.states().size(); ++i) states.push_back(make(3 + i));
  for (const auto& t : states) states_out.push_back(in_place ? t : test::empty(dev, {101}, type));
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const auto cut = [&](const tensor& t) { return t.slice(cuts[i], shape{cuts[i + 1] - cuts[i]}); };
    tensor to = cut(w_out);
    tensors from, into;
    for (const auto& t : states) from.push_back(cut(t));
    for (const auto& t : states_out) into.push_back(cut(t));
    r.update(dev, some_step, cut(w), cut(g), to, from, into);
  }
  std::string bytes(static_cast<const char*>(w_out.raw()), w_out.bytes());
  for (const auto& t : states_out) bytes.append(static_cast<const char*>(t.raw()), t.bytes());
  return bytes;
}

TEST(rules, give_the_same_bits_for_any_slicing_and_instruction_set) {
  for (const auto& one : every_rule())
    for (const dtype type : {dtype::f32, dtype::f64}) {
      const auto r = make_rule(one.rule.c_str(), one.given);
      const auto want = one_update(*make_cpu_device("baseline"), *r, type, {0, 101}, false);
      for (const auto& dev : test::all_devices()) {
        SCOPED_TRACE(one.rule + " " + dev->numerics_id());
        EXPECT_EQ(one_update(*dev, *r, type, {0, 101}, false), want);
        EXPECT_EQ(one_update(*dev, *r, type, {0, 101}, true), want);
        EXPECT_EQ(one_update(*dev, *r, type, {0, 1, 40, 57, 101}, true), want);
      }
    }
}

TEST(rules, start_from_zero_states) {
  const auto dev = make_cpu_device();
  for (const auto& one : every_rule()) {
    SCOPED_TRACE(one.rule);
    const auto r = make_rule(one.rule.c_str(), one.given);
    tensor w = tensor_of<double>(*dev, {2}, {1, -1});
    const tensor g = tensor_of<double>(*dev, {2}, {0.25, -0.5});
    tensors states(r->states().size());
    for (auto& s : states) s = tensor_of<double>(*dev, {2}, {0, 0});
    r->update(*dev, {.lr = 0.01}, w, g, w, states, states);
    EXPECT_LT(values_of(w)[0], 1.0);  // moves against the gradient, and is finite
    EXPECT_GT(values_of(w)[1], -1.0);
    EXPECT_GT(values_of(w)[0], 0.5);
    EXPECT_LT(values_of(w)[1], -0.5);
  }
}

TEST(rules, add_the_sign_of_the_weight_times_the_l1_decay) {
  const auto dev = make_cpu_device();
  tensor w = tensor_of<double>(*dev, {4}, {2, -3, 0, 0.125});
  tensors none;
  make_rule("sgd")->update(*dev, {.lr = 0.5, .decay_l1 = 0.25, .clip_value = 0.1}, w, tensor_of<double>(*dev, {4}, {0, 0, 0, 8}), w,
                           none, none);
  EXPECT_EQ(values_of(w), (std::vector<double>{1.875, -2.875, 0, 0.125 - 0.5 * (0.1 + 0.25)})) << "the decay is not clipped";
}

TEST(rules, without_l1_decay_keep_the_sign_of_a_zero_gradient) {
  const auto dev = make_cpu_device();
  tensor w = tensor_of<double>(*dev, {3}, {-1, 0, 1});
  tensors velocity{tensor_of<double>(*dev, {3}, {-0.0, -0.0, -0.0})};
  make_rule("momentum")->update(*dev, {.lr = 0.5}, w, tensor_of<double>(*dev, {3}, {-0.0, 0, -0.0}), w, velocity, velocity);
  EXPECT_TRUE(std::signbit(values_of(velocity[0])[0]));
  EXPECT_FALSE(std::signbit(values_of(velocity[0])[1]));
}

TEST(rules, adam_uses_the_update_count_of_its_states) {
  const auto dev = make_cpu_device();
  const auto moved = [&](std::uint64_t step, std::uint64_t updates) {
    tensor w = tensor_of<double>(*dev, {1}, {0});
    tensors states{tensor_of<double>(*dev, {1}, {0}), tensor_of<double>(*dev, {1}, {0})};
    make_rule("adam")->update(*dev, {.lr = 0.5, .step = step, .updates = updates}, w, tensor_of<double>(*dev, {1}, {3}), w, states,
                              states);
    return values_of(w)[0];
  };
  EXPECT_NEAR(moved(1000, 0), -0.5, 1e-8) << "the first update has size lr";
  EXPECT_NEAR(moved(0, 9), -0.5 * 0.1 / (1 - std::pow(0.9, 10)) / std::sqrt(0.001 / (1 - std::pow(0.999, 10))), 1e-8);
}

// With the same decay, adam divides the decay term by the root of the mean square, and adamw does
// not.
TEST(rules, adamw_shrinks_the_weight_and_keeps_decay_out_of_its_moments) {
  const auto dev = make_cpu_device();
  const auto updated = [&](const char* name, double decay) {
    tensor w = tensor_of<double>(*dev, {1}, {2});
    tensors states{tensor_of<double>(*dev, {1}, {0.5}), tensor_of<double>(*dev, {1}, {0.25})};
    make_rule(name)->update(*dev, {.lr = 0.1, .decay = decay, .updates = 3}, w, tensor_of<double>(*dev, {1}, {3}), w, states,
                            states);
    return std::array{values_of(w)[0], values_of(states[0])[0], values_of(states[1])[0]};
  };
  const auto plain = updated("adam", 0), decoupled = updated("adamw", 0.3);
  EXPECT_EQ(updated("adamw", 0), plain) << "without decay adamw is adam";
  EXPECT_DOUBLE_EQ(decoupled[0], plain[0] - 0.1 * 0.3 * 2);
  EXPECT_EQ(decoupled[1], plain[1]);
  EXPECT_EQ(decoupled[2], plain[2]);
  EXPECT_NE(updated("adam", 0.3)[1], plain[1]);
}

// Large out-of-place updates use non-temporal stores, and have the same bits as in place, at any
// address.
TEST(rules, large_updates_have_the_same_bits_in_and_out_of_place) {
  constexpr std::int64_t n = (1 << 20) + 1061;
  for (const auto& dev : test::all_devices())
    for (const auto* name : {"sgd", "momentum", "nesterov"})
      for (const std::int64_t offset : {0, 5}) {
        SCOPED_TRACE(dev->numerics_id() + " " + name + " from " + std::to_string(offset));
        std::vector<float> start(n), slope(n);
        for (std::int64_t i = 0; i < n; ++i) {
          start[static_cast<std::size_t>(i)] = static_cast<float>(i % 1013) / 1013 - 0.5f;
          slope[static_cast<std::size_t>(i)] = static_cast<float>(i % 787) / 787 - 0.5f;
        }
        const auto r = make_rule(name);
        const rule_step step{.lr = 0.1, .decay = 0.01, .grad_scale = 0.5};
        const auto run = [&](bool in_place) {
          const tensor all = tensor_of<float>(*dev, {n}, start), g = tensor_of<float>(*dev, {n}, slope).slice(offset, {n - offset});
          const tensor other = tensor_of<float>(*dev, {n}, std::vector<float>(n, 7.0f));
          const tensor w = all.slice(offset, {n - offset});
          tensor to = in_place ? w : other.slice(offset, {n - offset});
          tensors states;
          for (std::size_t s = 0; s < r->states().size(); ++s)
            states.push_back(tensor_of<float>(*dev, {n}, slope).slice(offset, {n - offset}));
          tensors next = states;
          r->update(*dev, step, w, g, to, states, next);
          return std::pair{values_of<float>(to), values_of<float>(in_place ? all : other)};
        };
        const auto near = run(true), far = run(false);
        EXPECT_TRUE(near.first == far.first);
        for (std::int64_t i = 0; i < offset; ++i)
          EXPECT_EQ(far.second[static_cast<std::size_t>(i)], 7) << "elements before the tensor are unchanged";
      }
}

TEST(rules, clamp_the_mean_gradient_before_decay) {
  const auto dev = make_cpu_device();
  tensor w = tensor_of<double>(*dev, {4}, {1, 1, 1, 1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const tensor g = tensor_of<double>(*dev, {4}, {8, -8, 1, nan});  // a sum over two packets
  tensors none;
  const auto r = make_rule("sgd");
  r->update(*dev, {.lr = 1, .decay = 0.5, .grad_scale = 0.5, .clip_value = 2}, w, g, w, none, none);
  const auto got = values_of(w);
  EXPECT_EQ(got[0], 1 - (2 + 0.5));
  EXPECT_EQ(got[1], 1 - (-2 + 0.5));
  EXPECT_EQ(got[2], 1 - (0.5 + 0.5));
  EXPECT_TRUE(std::isnan(got[3])) << "clamping hides no NaN";
}

TEST(clip, brings_the_norm_of_all_parameters_to_the_limit) {
  EXPECT_EQ(norm_clip_factor(5, {9, 16}, 1), 1) << "exactly at the limit";
  EXPECT_DOUBLE_EQ(norm_clip_factor(5, {36, 64}, 1), 0.5);
  EXPECT_DOUBLE_EQ(norm_clip_factor(5, {36, 64}, 2), 0.25) << "the norm of the mean";
  EXPECT_EQ(norm_clip_factor(5, {}, 1), 1);
  EXPECT_EQ(norm_clip_factor(5, {1, std::numeric_limits<double>::infinity()}, 1), 1);
  EXPECT_EQ(norm_clip_factor(5, {1, std::numeric_limits<double>::quiet_NaN()}, 1), 1);
}

using whole = std::int64_t;

TEST(schedules, follow_their_formulas) {
  EXPECT_EQ(rate("fixed", {}, 12345), 0.5);
  const options every{{{"every", whole{10}}, {"factor", 0.1}}};
  EXPECT_EQ(rate("step", every, 9), 0.5);
  EXPECT_DOUBLE_EQ(rate("step", every, 10), 0.05);
  EXPECT_DOUBLE_EQ(rate("step", every, 35), 0.0005);
  EXPECT_DOUBLE_EQ(rate("inverse", {}, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("inverse", {{{"gamma", 0.1}, {"power", 2.0}}}, 10), 0.125);
  const options linear{{{"steps", whole{100}}, {"final", 0.1}}};
  EXPECT_EQ(rate("linear", linear, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("linear", linear, 25), 0.4);
  EXPECT_EQ(rate("linear", linear, 100), 0.1);
  EXPECT_EQ(rate("linear", linear, 1000), 0.1);
  const options halves{{{"every", whole{20}}}};
  EXPECT_EQ(rate("exponential", halves, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("exponential", halves, 20), 0.25);
  EXPECT_DOUBLE_EQ(rate("exponential", halves, 30), 0.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(rate("exponential", {{{"every", whole{3}}, {"factor", 0.1}}}, 6), 0.005);
  EXPECT_EQ(rate("inverse_t", {{{"t", 4.0}}}, 4), 0.25);
  EXPECT_DOUBLE_EQ(rate("inverse_t", {{{"t", 4.0}}}, 16), 0.1);
  const options poly{{{"steps", whole{10}}, {"power", 2.0}}};
  EXPECT_EQ(rate("poly", poly, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("poly", poly, 5), 0.125);
  EXPECT_EQ(rate("poly", poly, 10), 0.0);
  EXPECT_EQ(rate("poly", poly, 11), 0.0);
  const options cosine{{{"steps", whole{90}}, {"final", 0.1}}};
  EXPECT_EQ(rate("cosine", cosine, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("cosine", cosine, 30), 0.4);
  EXPECT_DOUBLE_EQ(rate("cosine", cosine, 45), 0.3);
  EXPECT_DOUBLE_EQ(rate("cosine", cosine, 60), 0.2);
  EXPECT_EQ(rate("cosine", cosine, 90), 0.1);
  EXPECT_EQ(rate("cosine", cosine, 1000), 0.1);
  // Periods of 90, 270 and 810 steps.
  const options restarts{{{"steps", whole{90}}, {"growth", whole{3}}, {"final", 0.1}}};
  EXPECT_EQ(rate("cosine_restarts", restarts, 89), rate("cosine", cosine, 89));
  EXPECT_EQ(rate("cosine_restarts", restarts, 90), 0.5);
  EXPECT_DOUBLE_EQ(rate("cosine_restarts", restarts, 90 + 180), 0.2);
  EXPECT_EQ(rate("cosine_restarts", restarts, 90 + 270), 0.5);
  EXPECT_DOUBLE_EQ(rate("cosine_restarts", restarts, 90 + 270 + 405), 0.3);
  EXPECT_DOUBLE_EQ(rate("cosine_restarts", {{{"steps", whole{90}}}}, 900000 + 45), 0.25) << "equal periods without growth";
  EXPECT_THROW(rate("step", {}, 0), option_error);
}

// The schedule of Caffe's CIFAR10-full.
TEST(schedules, fixed_step_changes_at_the_steps_that_are_listed) {
  const options caffe{{{"at", std::vector<whole>{60000, 65000}}}};
  EXPECT_EQ(rate("fixed_step", caffe, 59999), 0.5);
  EXPECT_DOUBLE_EQ(rate("fixed_step", caffe, 60000), 0.05);
  EXPECT_DOUBLE_EQ(rate("fixed_step", caffe, 64999), 0.05);
  EXPECT_DOUBLE_EQ(rate("fixed_step", caffe, 65000), 0.005);
  const options own{{{"at", std::vector<whole>{2, 4}}, {"factors", std::vector<double>{3, 0.5}}}};
  EXPECT_EQ(rate("fixed_step", own, 1), 0.5);
  EXPECT_EQ(rate("fixed_step", own, 2), 1.5);
  EXPECT_EQ(rate("fixed_step", own, 4), 0.75);
  EXPECT_THROW(rate("fixed_step", {{{"at", std::vector<whole>{}}}}, 0), option_error);
  EXPECT_THROW(rate("fixed_step", {{{"at", std::vector<whole>{4, 4}}}}, 0), option_error);
  EXPECT_THROW(rate("fixed_step", {{{"at", std::vector<whole>{4}}, {"factors", std::vector<double>{1, 2}}}}, 0), option_error);
}

TEST(schedules, warm_up_applies_to_every_schedule) {
  schedule_registry r;
  add_stock_schedules(r);
  const auto made = [&](const char* name, options given) { return r.find(name)->make(check_options(given, r.find(name)->specs)); };
  const auto flat = with_warmup(made("fixed", {}), 500, 0.1);
  EXPECT_DOUBLE_EQ(flat->lr(2, 0), 0.2);
  EXPECT_DOUBLE_EQ(flat->lr(2, 250), 1.1);
  EXPECT_EQ(flat->lr(2, 500), 2);
  EXPECT_EQ(flat->lr(2, 5000), 2);
  const auto poly = with_warmup(made("poly", {{{"steps", whole{1000}}}}), 100, 0.0);
  EXPECT_EQ(poly->lr(1, 0), 0);
  EXPECT_DOUBLE_EQ(poly->lr(1, 50), 0.5 * 0.95);
  EXPECT_DOUBLE_EQ(poly->lr(1, 100), 0.9);
  for (const auto& name : r.names()) {
    options given;
    if (name == "fixed_step") given = {{{"at", std::vector<whole>{7}}}};
    if (name == "step" || name == "exponential") given = {{{"every", whole{7}}}};
    if (name == "linear" || name == "poly" || name.starts_with("cosine")) given = {{{"steps", whole{70}}}};
    const auto bare = made(name.c_str(), given), warm = with_warmup(made(name.c_str(), given), 20, 0.5);
    EXPECT_DOUBLE_EQ(warm->lr(1, 10), 0.75 * bare->lr(1, 10)) << name;
    EXPECT_EQ(warm->lr(1, 20), bare->lr(1, 20)) << name;
    EXPECT_EQ(with_warmup(made(name.c_str(), given), 0, 0.5)->lr(1, 3), bare->lr(1, 3)) << name;
    const auto prefixed = with_warmup(made(name.c_str(), given), 20, 0.5, true);
    EXPECT_DOUBLE_EQ(prefixed->lr(1, 10), 0.75 * bare->lr(1, 0)) << name;
    for (const std::uint64_t t : {0u, 1u, 7u, 300u}) EXPECT_EQ(prefixed->lr(1, 20 + t), bare->lr(1, t)) << name;
  }
}

TEST(schedules, rate_scales_with_the_batch) {
  EXPECT_EQ(batch_factor("none", 1024, 64), 1);
  EXPECT_EQ(batch_factor("linear", 1024, 64), 16);
  EXPECT_EQ(batch_factor("sqrt", 1024, 64), 4);
  EXPECT_EQ(batch_factor("linear", 32, 64), 0.5);
  schedule_registry r;
  add_stock_schedules(r);
  const auto ends = r.find("linear")->make(check_options({{{"steps", whole{10}}, {"final", 0.25}}}, r.find("linear")->specs));
  const auto twice =
      scaled_by(r.find("linear")->make(check_options({{{"steps", whole{10}}, {"final", 0.25}}}, r.find("linear")->specs)), 2);
  for (std::uint64_t t : {0u, 3u, 10u, 99u}) EXPECT_EQ(twice->lr(1, t), 2 * ends->lr(1, t)) << "also the absolute final rate";
}

}  // namespace
}  // namespace troupe
