// The values that check_layer draws reveal wrong gradients that affect only some inputs, only one
// packet, or only by a small amount. Correct functions with kinks, and every stock layer, pass with
// other seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "ops/check_layer.hpp"
#include "ops/layer_support.hpp"
#include "ops/tensor_values.hpp"
#include "tests/environment.hpp"

namespace troupe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// Position of an element: index in the packet's tensor, length of the last axis, and packet.
struct element_place {
  std::int64_t index, row;
  std::uint32_t packet;
};
using real_function = std::function<double(double)>;
using real_gradient = std::function<double(double, const element_place&)>;

// y = f(x), element-wise; backward multiplies by `df`, which may be wrong.
struct element_layer final : layer {
  real_function f;
  real_gradient df;
  element_layer(real_function of_x, real_gradient gradient) : f(std::move(of_x)), df(std::move(gradient)) {}

  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return alike({distribution::split_0}, 1); }
  template <class T>
  void run(const tensor& x, const tensor* dy, tensor& to, std::uint32_t packet) const {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const double v = value(x, i), factor = dy != nullptr ? value(*dy, i) : 1.0;
      to.mutable_data<T>()[i] = static_cast<T>(dy != nullptr ? df(v, {i, x.dims()[x.dims().rank() - 1], packet}) * factor : f(v));
    }
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0].back(c.dev);
    in[0].type() == dtype::f64 ? run<double>(in[0], nullptr, out[0], c.packet) : run<float>(in[0], nullptr, out[0], c.packet);
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    grad_in[0].back(c.dev);
    const tensor& x = s.inputs[0];
    x.type() == dtype::f64 ? run<double>(x, grad_out.data(), grad_in[0], c.packet)
                           : run<float>(x, grad_out.data(), grad_in[0], c.packet);
  }
};

layer_type row_of(const real_function& f, const real_gradient& df) {
  return {.name = "element",
          .doc = "y = f(x)",
          .specs = {},
          .make = [f, df](const options&) { return std::make_unique<element_layer>(f, df); },
          .cases = {}};
}

std::vector<std::string> findings_of(const real_function& f, const real_gradient& df, const shape& in,
                                     const layer_check& how = {}) {
  return check_layer(row_of(f, df), example("rows", {}, {in}), *make_cpu_device(), how);
}

double hard_swish(double x) { return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6; }
double hard_swish_gradient(double x, const element_place&) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }
double swish(double x) { return x / (1 + std::exp(-x)); }
double swish_gradient(double x, const element_place&) {
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

// Expects an error for swish with a gradient that is 2 % too large where `wrong` returns true: in a
// small, an odd and a large tensor, for each of ten seeds.
void expect_found(const std::function<bool(double, const element_place&)>& wrong) {
  const auto df = [&](double x, const element_place& at) { return swish_gradient(x, at) * (wrong(x, at) ? 1.02 : 1.0); };
  for (const auto& in : {shape{3, 5}, shape{2, 37}, shape{2, 3, 4, 5}, shape{4, 1024}})
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
      EXPECT_THAT(findings_of(swish, df, in, {.seed = seed}), Contains(HasSubstr("gradient of input 0")))
          << in.to_string() << ", seed " << seed;
}

TEST(check_layer_draws, finds_a_hard_swish_whose_gradient_is_0_from_3_on) {
  const auto wrong = [](double x, const element_place& at) { return x >= 3 ? 0 : hard_swish_gradient(x, at); };
  for (const auto& in : {shape{1, 1}, shape{3, 5}, shape{2, 3, 4, 5}, shape{2, 37}})
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      EXPECT_THAT(findings_of(hard_swish, wrong, in, {.seed = seed}), Contains(HasSubstr("gradient of input 0")))
          << in.to_string() << ", seed " << seed;
}
TEST(check_layer_draws, accepts_correct_functions_with_kinks_for_every_seed) {
  const std::vector<std::pair<real_function, real_gradient>> right{
      {hard_swish, hard_swish_gradient},
      {[](double x) { return std::fabs(x); }, [](double x, const element_place&) { return x < 0 ? -1.0 : 1.0; }},
      {[](double x) { return std::fmin(std::fmax(x, 0.0), 6.0); },
       [](double x, const element_place&) { return x > 0 && x < 6 ? 1.0 : 0.0; }},
      {[](double x) { return std::fabs(std::fabs(x) - 2); },
       [](double x, const element_place&) { return (x < 0 ? -1.0 : 1.0) * (std::fabs(x) < 2 ? -1.0 : 1.0); }}};
  for (const auto& [f, df] : right)
    for (std::uint64_t seed = 1; seed <= 50; ++seed)
      EXPECT_THAT(findings_of(f, df, {4, 31}, {.seed = seed}), IsEmpty()) << "seed " << seed;
}
TEST(check_layer_draws, accepts_fast_growing_functions) {
  const auto cube = [](double x, const element_place&) { return 3 * x * x; };
  const auto e = [](double x, const element_place&) { return std::exp(x); };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_THAT(findings_of([](double x) { return x * x * x; }, cube, {4, 31}, {.seed = seed}), IsEmpty()) << "seed " << seed;
    EXPECT_THAT(findings_of([](double x) { return std::exp(x); }, e, {4, 31}, {.seed = seed}), IsEmpty()) << "seed " << seed;
  }
}

// A single output: the rounding error of a large sum must not be reported.
struct square_sum final : layer {
  double factor;
  explicit square_sum(double of_gradient) : factor(of_gradient) {}
  shapes infer(const shapes&) const override { return {shape{}}; }
  signatures supported() const override { return {{{distribution::split_0}, {}, {distribution::partial}}}; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    tensor sum = tensor::allocate(c.dev, {}, dtype::f64);
    c.dev.sum_squares(in[0], sum);
    c.dev.copy(sum, backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    c.dev.copy(s.inputs[0], backed(c.dev, grad_in[0]));
    c.dev.scale(factor * value(grad_out[0], 0), grad_in[0]);
  }
};
TEST(check_layer_draws, tolerates_the_rounding_error_of_a_large_sum) {
  for (const double factor : {2.0, 2.04}) {
    const layer_type type{.name = "square_sum",
                          .doc = "y = sum of x^2",
                          .specs = {},
                          .make = [factor](const options&) { return std::make_unique<square_sum>(factor); },
                          .cases = {}};
    const auto found = check_layer(type, example("rows", {}, {{8, 2048}}), *make_cpu_device(), {.step = 1e-5, .tolerance = 1e-7});
    EXPECT_EQ(found.empty(), factor == 2.0) << testing::PrintToString(found);
  }
}

TEST(check_layer_draws, finds_a_gradient_that_is_wrong_for_large_values_only) {
  expect_found([](double x, const element_place&) { return std::fabs(x) > 5; });
  expect_found([](double x, const element_place&) { return x > 10; });
}
TEST(check_layer_draws, finds_a_gradient_that_is_wrong_for_negative_values_only) {
  expect_found([](double x, const element_place&) { return x < 0; });
}
TEST(check_layer_draws, finds_a_gradient_that_is_wrong_between_two_kinks_only) {
  expect_found([](double x, const element_place&) { return x > 2 && x < 3; });
}
TEST(check_layer_draws, finds_a_gradient_that_is_wrong_for_the_last_element_of_a_row_only) {
  expect_found([](double, const element_place& at) { return at.index % at.row == at.row - 1; });
}
TEST(check_layer_draws, finds_a_gradient_that_is_wrong_in_the_second_packet_only) {
  expect_found([](double, const element_place& at) { return at.packet == 1; });
}
TEST(check_layer_draws, finds_a_gradient_that_is_off_by_two_percent) {
  expect_found([](double, const element_place&) { return true; });
}

TEST(check_layer_draws, reports_its_coverage) {
  layer_coverage seen;
  const auto type =
      row_of([](double x) { return std::fabs(x); }, [](double x, const element_place&) { return x < 0 ? -1.0 : 1.0; });
  EXPECT_THAT(check_layer(type, example("rows", {}, {{4, 31}}), *make_cpu_device(), {.samples = 50, .seeds = 3}, &seen), IsEmpty());
  EXPECT_EQ(seen.draws, 6);
  EXPECT_EQ(seen.compared, 6 * 50);
  EXPECT_EQ(seen.elements, 6 * 4 * 31);
  EXPECT_LT(seen.kinks, seen.compared);
  EXPECT_LT(seen.low, -4);
  EXPECT_GT(seen.high, 4);
}

TEST(check_layer_draws, accepts_every_stock_layer_with_other_seeds) {
  // One seed checks all stock layers and takes as long as forty seeds of a law (tests/sim/laws_*).
  const auto seeds = std::clamp<std::uint64_t>(from_environment("TROUPE_SEEDS", 80) / 40, 1, 5);
  layer_registry rows;
  add_stock_layers(rows);
  const auto dev = make_cpu_device();
  for (const auto& name : rows.names())
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      layer_check how{.seed = 1 + 1000 * seed};
      if (name == "rbm" || name == "rnn")
        how.bf16_tolerance = 1e30;  // drawn numbers, and a relu, depend on the last bit (layers_test.cpp)
      for (const auto& finding : check_layer_type(*rows.find(name), *dev, how))
        ADD_FAILURE() << name << ", seed " << how.seed << ": " << finding;
    }
}

}  // namespace
}  // namespace troupe
