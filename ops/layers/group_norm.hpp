// group_norm: y = w (x - mean) / sqrt(var + epsilon) + b, with mean and biased variance of each
// example over the channels of a group and their pixels. instance_norm has a group per channel.
//   shapes    [N, C, ...] -> same; weight and bias (affine) [C]
//   gradient  with g = dy w: dx = r (g - mean of g - xhat mean of (g xhat)), dw = sum of dy xhat,
//             db = sum of dy over examples and pixels
// Wu and He 2018; Ulyanov, Vedaldi and Lempitsky 2016. instance_norm can be split by feature.
#pragma once

#include "ops/layers/normalise.hpp"

namespace troupe {

struct group_norm final : layer {
  std::int64_t groups;  // 0: one for each channel
  double epsilon;
  bool affine;
  filler_spec ones, zeros;
  group_norm(std::int64_t groups_, const options& o) : groups(groups_), epsilon(o.real("epsilon")), affine(o.flag("affine")) {
    ones.values.values["value"] = 1.0;
  }

  shapes infer(const shapes& in) const override {
    if (groups == 0)
      want(in.size() == 1 && in[0].rank() >= 3, "one input [N, C, ...] with pixels", in);
    else
      want(in.size() == 1 && in[0].rank() >= 2 && in[0][1] % groups == 0,
           "one input [N, C, ...] whose channels are a multiple of " + std::to_string(groups) + " groups", in);
    return in;
  }
  // The variance of one value is 0: every output would be the bias.
  std::string untrainable(const shapes& in, std::int64_t) const override {
    if (in[0].count() > means_of(in[0])) return {};
    return groups == 0
               ? "a channel of its input " + in[0].to_string() + " has one pixel, of which the variance is 0"
               : "a group of its input " + in[0].to_string() + " has one value, of which the variance is 0: use fewer groups";
  }
  signatures supported() const override {
    using enum distribution;
    const std::size_t n = affine ? 2 : 0;
    auto s = alike({split_0, broadcast}, 1, n);
    if (groups == 0) s.push_back({{split_1}, std::vector(n, split_0), {split_1}});
    return s;
  }
  param_specs params(const shapes& in) const override {
    if (!affine) return {};
    param_specs p(2);
    p[0] = {.name = "weight", .dims = shape{in[0][1]}, .filler = ones};
    p[1] = {.name = "bias", .dims = shape{in[0][1]}, .filler = zeros};
    return p;
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.saved_bytes = 8 * means_of(in[0])};
  }
  std::int64_t means_of(const shape& x) const { return x[0] * (groups == 0 ? x[1] : groups); }
  normal_extents rows(const shape& x) const { return {1, means_of(x), x.count() / means_of(x)}; }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const tensor& x = in[0];
    const auto e = rows(x.dims());
    const tensor xhat = standardised(c.dev, e, epsilon, x, s);
    if (!affine) return xhat.type() == out[0].type() ? void(out[0] = xhat) : c.dev.copy(xhat, backed(c.dev, out[0]));
    c.dev.blend(x.dims()[0], x.dims()[1], x.dims().count_from(2), xhat, params[0], {}, {}, params[1], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const tensor& x = s.inputs[0];
    const tensor& dy = grad_out[0];
    const auto e = rows(x.dims());
    const std::int64_t outer = x.dims()[0], channels = x.dims()[1], inner = x.dims().count_from(2);
    const tensor xhat = standardised(c.dev, e, x, s.extra[0], s.extra[1]);
    if (affine) {
      assign_or_add(c.dev, grad_params[0], accumulate,
                    [&](tensor& dw) { c.dev.reduce_product(outer, channels, inner, dy, xhat, dw); });
      assign_or_add(c.dev, grad_params[1], accumulate, [&](tensor& db) { c.dev.reduce_sum(outer, channels, inner, dy, db); });
    }
    if (!wanted(grad_in, 0)) return;
    tensor& dx = backed(c.dev, grad_in[0]);
    const auto type = wide_of(x.type());
    tensor sum = tensor::allocate(c.dev, shape{e.mid}, type), product = tensor::allocate(c.dev, shape{e.mid}, type), g = dy;
    if (affine) {
      g = type == dx.type() ? dx : tensor::allocate(c.dev, dx.dims(), type);
      c.dev.blend(outer, channels, inner, dy, params[0], {}, {}, {}, g);
    }
    c.dev.reduce_sum(1, e.mid, e.inner, g, sum);
    c.dev.reduce_product(1, e.mid, e.inner, g, xhat, product);
    standardised_backward(c.dev, e, g, xhat, s.extra[1], sum, product, static_cast<double>(e.count()), dx);
  }
};

}  // namespace troupe
