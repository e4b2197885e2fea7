// check_layer finds a planted mistake for each check that check_layer.hpp lists.
#include "ops/check_layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/layer_support.hpp"

namespace troupe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// y = w x^2 for one weight, correct except for the planted mistake.
enum class mistake {
  none,
  gradient,
  weight_gradient,
  impure,
  unwritten,
  undeclared_need,
  no_accumulate,
  changes_input,
  wrong_shape,
  saves_more,
  kink,
  sums_as_one_packet,
  says_ids,
  weight_below_0,
  weight_of_two
};

struct planted final : layer, gathered_maths {
  mistake m;
  mutable tensor remembered;  // state, which a layer must not have
  explicit planted(mistake which) : m(which) {}

  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return alike({distribution::split_0}, 1, 1); }
  holding holds(std::size_t, const shapes&) const override { return m == mistake::says_ids ? holding::ids : holding::values; }
  bool is_metric() const override { return m == mistake::weight_below_0 || m == mistake::weight_of_two; }
  tensor mean_weight(context& c, const tensors&) const override {
    auto weight = tensor::allocate(c.dev, shape{m == mistake::weight_of_two ? 2 : 1}, dtype::f64);
    c.dev.fill(-1.0, weight);
    return weight;
  }
  param_specs params(const shapes&) const override { return {{.name = "weight", .dims = shape{1}, .filler = {}}}; }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = m != mistake::undeclared_need};
  }

  template <class T>
  void run_forward(const tensors& in, const tensors& params, tensors& out) const {
    const T w = params[0].data<T>()[0];
    const std::int64_t n = out[0].count() - (m == mistake::unwritten ? 1 : 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const T x = in[0].data<T>()[i];
      out[0].mutable_data<T>()[i] = m == mistake::kink ? (x > 0 ? x : T(0)) * w : w * x * x;
    }
    if (m == mistake::changes_input) const_cast<T*>(in[0].data<T>())[0] += T(1);
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    if (m == mistake::wrong_shape) out[0] = tensor::allocate(c.dev, shape{in[0].count() + 1}, in[0].type());
    out[0].back(c.dev);
    in[0].type() == dtype::f64 ? run_forward<double>(in, params, out) : run_forward<float>(in, params, out);
    if (m == mistake::impure) remembered = in[0];
    if (m == mistake::saves_more) s.extra = {tensor::allocate(c.dev, in[0].dims(), in[0].type())};
  }
  template <class T>
  void run_backward(const tensor& x, const tensors& params, const tensor& dy, tensors& grad_in, tensors& grad_params,
                    bool accumulate) const {
    T sum = 0;
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const T v = x.data<T>()[i], d = dy.data<T>()[i];
      const T factor = m == mistake::gradient ? T(2.01) : T(2);
      if (grad_in[0]) grad_in[0].mutable_data<T>()[i] = params[0].data<T>()[0] * (m == mistake::kink ? T(v > 0) : factor * v) * d;
      sum += (m == mistake::kink ? (v > 0 ? v : T(0)) : v * v) * d;
    }
    if (m == mistake::weight_gradient) sum = -sum;
    if (grad_params[0])
      grad_params[0].mutable_data<T>()[0] = sum + (accumulate && m != mistake::no_accumulate ? grad_params[0].data<T>()[0] : T(0));
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const tensor& x = m == mistake::impure ? remembered : s.inputs[0];
    if (grad_in[0]) grad_in[0].back(c.dev);
    if (grad_params[0]) grad_params[0].back(c.dev);
    x.type() == dtype::f64 ? run_backward<double>(x, params, grad_out[0], grad_in, grad_params, accumulate)
                           : run_backward<float>(x, params, grad_out[0], grad_in, grad_params, accumulate);
  }
  const gathered_maths* gathered() const override { return m == mistake::sums_as_one_packet ? this : nullptr; }
  void forward_all(context& c, std::int64_t, plan& p, const tensors& in, const tensors& params, tensors& out,
                   saved& s) const override {
    forward(c, p, in, params, out, s);
  }
  void backward_all(context& c, std::int64_t, plan& p, const saved& s, const tensors& params, const tensors& grad_out,
                    tensors& grad_in, tensors& grad_params) const override {
    backward(c, p, s, params, grad_out, grad_in, grad_params, false);
  }
};

std::vector<std::string> findings(mistake m) {
  const layer_type type{.name = "planted",
                        .doc = "y = w x^2",
                        .specs = {},
                        .make = [m](const options&) { return std::make_unique<planted>(m); },
                        .cases = {}};
  return check_layer(type, example("vector", {}, {shape{3, 4}}), *make_cpu_device());
}

TEST(check_layer, accepts_a_correct_layer) { EXPECT_THAT(findings(mistake::none), IsEmpty()); }
TEST(check_layer, finds_an_input_that_contradicts_holds) {
  EXPECT_THAT(findings(mistake::says_ids), Contains(HasSubstr("input 0 is values in this case, but holds() returns ids")));
}
TEST(check_layer, finds_a_wrong_gradient_of_an_input) {
  EXPECT_THAT(findings(mistake::gradient), Contains(HasSubstr("gradient of input 0")));
}
TEST(check_layer, finds_a_wrong_gradient_of_a_parameter) {
  EXPECT_THAT(findings(mistake::weight_gradient), Contains(HasSubstr("gradient of parameter 'weight'")));
}
TEST(check_layer, finds_a_layer_that_keeps_state_of_a_pass) {
  EXPECT_THAT(findings(mistake::impure), Contains(HasSubstr("impure")));
}
TEST(check_layer, finds_a_weight_of_a_mean_that_is_no_weight) {
  EXPECT_THAT(findings(mistake::weight_below_0), Contains(HasSubstr("mean_weight() returns -1")));
  EXPECT_THAT(findings(mistake::weight_of_two), Contains(HasSubstr("mean_weight() returns a tensor of shape")));
}
TEST(check_layer, finds_elements_that_are_not_written) {
  EXPECT_THAT(findings(mistake::unwritten), Contains(HasSubstr("not written")));
}
TEST(check_layer, finds_use_of_tensors_that_were_not_requested) {
  EXPECT_THAT(findings(mistake::undeclared_need), Contains(HasSubstr("backward_needs()")));
}
TEST(check_layer, finds_assignment_instead_of_accumulation) {
  EXPECT_THAT(findings(mistake::no_accumulate), Contains(HasSubstr("accumulate")));
}
TEST(check_layer, finds_a_modified_input) {
  EXPECT_THAT(findings(mistake::changes_input), Contains(HasSubstr("an input is modified")));
}
TEST(check_layer, finds_an_output_shape_that_differs_from_infer) {
  EXPECT_THAT(findings(mistake::wrong_shape), Contains(HasSubstr("declared 3x4")));
}
TEST(check_layer, finds_more_saved_bytes_than_declared) {
  EXPECT_THAT(findings(mistake::saves_more), Contains(HasSubstr("saves 48 bytes")));
}
TEST(check_layer, finds_packets_that_are_added_in_another_order) {
  EXPECT_THAT(findings(mistake::sums_as_one_packet),
              Contains(HasSubstr("2 packets in one call (f64): gradients of parameters are not the sum over the packets")));
}
TEST(check_layer, accepts_a_kink) { EXPECT_THAT(findings(mistake::kink), IsEmpty()); }

TEST(check_layer, reports_wrong_options_and_shapes) {
  layer_registry r;
  add_stock_layers(r);
  const auto dev = make_cpu_device();
  EXPECT_THAT(check_layer(*r.find("relu"), example("", {{{"slop", 0.1}}}, {{2}}), *dev),
              Contains(HasSubstr("did you mean 'slope'?")));
  EXPECT_THAT(check_layer(*r.find("lrn"), example("", {}, {{2, 3}}), *dev),
              Contains(HasSubstr("expects one input [N, C, H, W], got 2x3")));
}

TEST(check_layer, requires_documentation_and_cases_of_an_entry) {
  const layer_type type{.name = "bare",
                        .doc = "",
                        .specs = {},
                        .make = [](const options&) { return std::make_unique<planted>(mistake::none); },
                        .cases = {}};
  const auto all = check_layer_type(type, *make_cpu_device());
  EXPECT_THAT(all, Contains(HasSubstr("no doc")));
  EXPECT_THAT(all, Contains(HasSubstr("fewer than five cases")));
}

}  // namespace
}  // namespace troupe
