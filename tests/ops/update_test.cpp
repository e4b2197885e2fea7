// Update rules and schedules against their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

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

// Three steps of one weight with gradients 1, 2, 3 (half of what is given) from w = 1, lr 0.1, decay 0.01.
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

TEST(rules, give_the_same_bits_for_any_slicing_and_in_place) {
  for (const auto& dev : test::all_devices())
    for (const char* name : {"sgd", "momentum", "nesterov"}) {
      const auto r = make_rule(name);
      const auto make = [&](std::uint64_t key) { return test::gaussian(*dev, {101}, key, dtype::f32); };
      const tensor w = make(1), g = make(2);
      tensors v{make(3)};
      tensor whole = test::empty(*dev, {101}, dtype::f32), sliced = make(1);
      tensors v_whole{test::empty(*dev, {101}, dtype::f32)}, v_sliced{make(3)};
      r->update(*dev, {.lr = 0.1, .decay = 1e-3}, w, g, whole, v, v_whole);
      for (std::int64_t at : {0, 1, 40, 57}) {
        const std::int64_t end = at == 0 ? 1 : at == 1 ? 40 : at == 40 ? 57 : 101;
        const auto cut = [&](const tensor& t) { return t.slice(at, shape{end - at}); };
        tensor w_part = cut(sliced);
        tensors v_part{cut(v_sliced[0])};
        r->update(*dev, {.lr = 0.1, .decay = 1e-3}, w_part, cut(g), w_part, v_part, v_part);
      }
      EXPECT_EQ(std::memcmp(whole.raw(), sliced.raw(), whole.bytes()), 0);
      if (!r->states().empty()) {
        EXPECT_EQ(std::memcmp(v_whole[0].raw(), v_sliced[0].raw(), whole.bytes()), 0);
      }
    }
}

TEST(schedules, follow_their_formulas) {
  using i = std::int64_t;
  EXPECT_EQ(rate("fixed", {}, 12345), 0.5);
  const options every{{{"every", i{10}}, {"factor", 0.1}}};
  EXPECT_EQ(rate("step", every, 9), 0.5);
  EXPECT_DOUBLE_EQ(rate("step", every, 10), 0.05);
  EXPECT_DOUBLE_EQ(rate("step", every, 35), 0.0005);
  EXPECT_DOUBLE_EQ(rate("inverse", {}, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("inverse", {{{"gamma", 0.1}, {"power", 2.0}}}, 10), 0.125);
  EXPECT_THROW(rate("step", {}, 0), option_error);
}

}  // namespace
}  // namespace troupe
