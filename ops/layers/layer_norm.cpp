// layer_norm: y = w (x - mean) / sqrt(var + epsilon) + b, with mean and biased variance of each
// example over the axes from `axis` on.
//   shapes    [N, ...] -> same; weight and bias have the axes from `axis` on ([N, T, D] with axis
//             2: a mean for each n, t; weight [D])
//   gradient  with g = dy w: dx = r (g - mean of g - xhat mean of (g xhat)), dw = sum of dy xhat,
//             db = sum of dy over the examples
// Ba, Kiros and Hinton 2016. Cannot be split by feature: the mean is over features.
#include "ops/layers/normalise.hpp"

namespace troupe {

namespace {

struct layer_norm final : layer {
  int axis;
  double epsilon;
  bool affine;
  filler_spec ones, zeros;
  explicit layer_norm(const options& o)
      : axis(static_cast<int>(o.integer("axis"))), epsilon(o.real("epsilon")), affine(o.flag("affine")) {
    ones.values.values["value"] = 1.0;
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() > axis, "one input with an axis " + std::to_string(axis), in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, affine ? 2 : 0);
  }
  param_specs params(const shapes& in) const override {
    if (!affine) return {};
    shape dims;
    for (int i = axis; i < in[0].rank(); ++i) dims.push_back(in[0][i]);
    param_specs p(2);
    p[0] = {.name = "weight", .dims = dims, .filler = ones};
    p[1] = {.name = "bias", .dims = dims, .filler = zeros};
    return p;
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.saved_bytes = 8 * (in[0].count() / in[0].count_from(axis))};
  }
  // Rows are the middle extent: one mean each.
  normal_extents rows(const shape& x) const { return {1, x.count() / x.count_from(axis), x.count_from(axis)}; }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const tensor& x = in[0];
    const auto e = rows(x.dims());
    const tensor xhat = standardised(c.dev, e, epsilon, x, s);
    if (!affine) return xhat.type() == out[0].type() ? void(out[0] = xhat) : c.dev.copy(xhat, backed(c.dev, out[0]));
    c.dev.blend(e.mid, e.inner, 1, xhat, params[0], {}, {}, params[1], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const tensor& x = s.inputs[0];
    const tensor& dy = grad_out[0];
    const auto e = rows(x.dims());
    const tensor xhat = standardised(c.dev, e, x, s.extra[0], s.extra[1]);
    if (affine) {
      assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& dw) { c.dev.reduce_product(e.mid, e.inner, 1, dy, xhat, dw); });
      assign_or_add(c.dev, grad_params[1], accumulate, [&](tensor& db) { c.dev.reduce_sum(e.mid, e.inner, 1, dy, db); });
    }
    if (!wanted(grad_in, 0)) return;
    tensor& dx = backed(c.dev, grad_in[0]);
    const auto type = wide_of(x.type());
    tensor sum = tensor::allocate(c.dev, shape{e.mid}, type), product = tensor::allocate(c.dev, shape{e.mid}, type), g = dy;
    if (affine) {
      g = type == dx.type() ? dx : tensor::allocate(c.dev, dx.dims(), type);
      c.dev.blend(e.mid, e.inner, 1, dy, params[0], {}, {}, {}, g);
    }
    c.dev.reduce_sum(1, e.mid, e.inner, g, sum);
    c.dev.reduce_product(1, e.mid, e.inner, g, xhat, product);
    standardised_backward(c.dev, e, g, xhat, s.extra[1], sum, product, static_cast<double>(e.count()), dx);
  }
};

}  // namespace

layer_type layer_norm_layer() {
  using i = std::int64_t;
  return {
      .name = "layer_norm",
      .doc =
          "y = weight (x - mean) / sqrt(var + epsilon) + bias, with mean and variance of each example over the axes from `axis` "
          "on, which are also the axes of weight and bias. Any shape -> same. With g = dy weight: dx = r (g - mean of g - xhat "
          "mean of (g xhat)). Ba et al. 2016.",
      .specs = {integer_option("axis", 1, "first axis of the mean", 1),
                real_option("epsilon", 1e-5, "added to the variance", 1e-30), flag_option("affine", true, "learn weight and bias")},
      .make = [](const options& o) { return std::make_unique<layer_norm>(o); },
      .cases = {example("rows", {}, {{4, 19}}), example("image", {}, {{2, 3, 4, 5}}),
                example("sequence", options{{{"axis", i{2}}}}, {{2, 3, 20}}),
                example("not affine", options{{{"affine", false}}}, {{3, 7}}),
                example("two elements", options{{{"epsilon", 0.1}}}, {{3, 2}}),
                example("one element, which is its mean", options{{{"epsilon", 1.0}}}, {{2, 1}})}};
}

}  // namespace troupe
