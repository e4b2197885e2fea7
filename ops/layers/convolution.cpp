// convolution: y[n, o] = bias[o] + sum over c of w[o, c] cross-correlated with x[n, c].
//   shapes    x [N, C, H, W] -> y [N, outputs, OH, OW],
//             OH = (H + 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down;
//             w [outputs, C / groups, kernel_h, kernel_w], bias [outputs];
//             [N, C, L] as images of height 1, with w [outputs, C / groups, kernel]
//   gradient  dw = dy correlated with x, dx = dy convolved with w, dbias = sum of dy over examples
//             and pixels
//   LeCun et al. 1998; groups: Krizhevsky et al. 2012; dilation: Yu and Koltun 2016.
#include "ops/layers/convolution.hpp"

#include "ops/layers/conv_window.hpp"

namespace troupe {

convolution::convolution(const options& o) : base(conv_window(o)) {
  const auto named = [&](const char* key) -> std::optional<conv_algorithm> {
    if (o.text(key) == "same") return std::nullopt;
    const auto a = conv_algorithm_named(o.text(key));
    if (const auto reason = why_not(a, base); !reason.empty()) throw option_error(key, reason);
    return a;
  };
  base.algorithm = *named("algorithm");
  base.algorithm_data = named("algorithm_data"), base.algorithm_weights = named("algorithm_weights");
  bias = o.flag("bias");
  weight_filler = filler_from(o.table("weight_filler"), "xavier");
  bias_filler = filler_from(o.table("bias_filler"), "constant");
}

conv_geometry convolution::geometry(const shape& x) const { return conv_on(base, x); }

shapes convolution::infer(const shapes& in) const {
  want_images(base, in);
  const conv_geometry g = geometry(in[0]);
  want(g.channels % g.groups == 0, "a number of channels that is a multiple of groups = " + std::to_string(g.groups), in);
  const shape kernel{g.dilation_h * (g.kernel_h - 1) + 1, g.dilation_w * (g.kernel_w - 1) + 1};
  want(g.height + 2 * g.pad_h >= kernel[0] && g.width + 2 * g.pad_w >= kernel[1],
       "an image no smaller than the kernel's extent " + kernel.to_string() + " (pad " + text_of({g.pad_h, g.pad_w}) + ")", in);
  for (const auto p : conv_passes_all)
    if (const auto reason = why_not(algorithm_of(g, p), g); !reason.empty()) want(false, "[N, C, H, W]; " + reason, in);
  return {images_like(in[0], g.outputs, {g.out_h(), g.out_w()})};
}

signatures convolution::supported() const {
  using enum distribution;
  signatures s = alike({split_0, broadcast}, 1, bias ? 2 : 1);
  if (base.groups == 1) {
    s.push_back({{broadcast}, bias ? std::vector{split_0, split_0} : std::vector{split_0}, {split_1}});
    s.push_back({{split_1}, bias ? std::vector{split_1, broadcast} : std::vector{split_1}, {partial}});
  }
  return s;
}

std::shared_ptr<const layer> convolution::part(std::int64_t begin, std::int64_t end, std::int64_t) const {
  auto p = std::make_shared<convolution>(*this);
  p->base.outputs = end - begin;
  return p;
}

std::shared_ptr<const layer> convolution::addend(std::int64_t, std::int64_t, std::int64_t, bool first) const {
  auto p = std::make_shared<convolution>(*this);
  p->bias = bias && first;
  return p;
}

param_specs convolution::params(const shapes& in) const {
  const conv_geometry g = geometry(in[0]);
  param_specs p(1);
  p[0] = {.name = "weight", .dims = conv_weights(g, in[0], g.outputs, g.group_channels()), .filler = weight_filler};
  if (bias) p.push_back({.name = "bias", .dims = shape{g.outputs}, .filler = bias_filler});
  return p;
}

double convolution::flops(const shapes& in) const {
  const conv_geometry g = geometry(in[0]);
  return 2.0 * static_cast<double>(g.batch * g.outputs * g.pixels()) * static_cast<double>(g.patch());
}

std::shared_ptr<const layer> convolution::absorb(const layer& next, const shapes& in) const {
  return convolution_chain(*this, next, in);
}

void convolution::forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const {
  c.dev.conv_forward(geometry(in[0].dims()), in[0], params[0], bias ? params[1] : tensor(), backed(c.dev, out[0]));
}

void convolution::backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                           tensors& grad_params, bool accumulate) const {
  tensor none;
  tensor& dx = wanted(grad_in, 0) ? grad_in[0] : none;
  backward(c, geometry(s.inputs[0].dims()), {}, {.x = s.inputs[0], .params = params}, grad_out[0], dx, grad_params, accumulate);
}

void convolution::backward(context& c, const conv_geometry& g, const conv_tail& t, const pass& p, const tensor& dy, tensor& dx,
                           std::span<tensor> grad_params, bool accumulate) const {
  tensor dw = gradient_for(c.dev, grad_params[0], accumulate), db;
  if (bias) db = gradient_for(c.dev, grad_params[1], accumulate);
  if (dx) dx.back(c.dev);
  c.dev.conv_tail_backward(g, t, p.x, p.params[0], t.maps ? p.y : tensor(), p.index, dy, dx, dw, db);
  keep_gradient(c.dev, grad_params[0], dw, accumulate);
  if (bias) keep_gradient(c.dev, grad_params[1], db, accumulate);
}

namespace {

std::vector<layer_case> convolution_cases() {
  using i = std::int64_t;
  return {
      example("plain", conv_options(3, 3), {{2, 2, 6, 7}}),
      example("stride 2, pad 1", conv_options(4, 3, {{"stride", i{2}}, {"pad", i{1}}}), {{3, 2, 7, 5}}),
      example("stride 3 over the border", conv_options(2, 2, {{"stride", i{3}}}), {{2, 1, 9, 8}}),
      example("groups", conv_options(6, 3, {{"groups", i{2}}, {"pad", i{1}}}), {{2, 4, 5, 4}}),
      example("depthwise", conv_options(3, 3, {{"groups", i{3}}}), {{2, 3, 5, 5}}),
      example("dilation", conv_options(2, 3, {{"dilation", i{2}}, {"pad", i{2}}}), {{2, 2, 6, 6}}),
      example("oblong kernel, no bias", conv_options(2, 0, {{"kernel_h", i{1}}, {"kernel_w", i{4}}, {"bias", false}}),
              {{2, 2, 3, 6}}),
      example("kernel by axis", conv_options(3, 0, {{"kernel", pair_of(2, 3)}}), {{2, 2, 5, 6}}),
      example("stride and pad by axis, not to the border", conv_options(2, 3, {{"stride", pair_of(3, 2)}, {"pad", pair_of(0, 2)}}),
              {{2, 2, 10, 8}}),
      example("dilation by axis", conv_options(2, 3, {{"dilation", pair_of(1, 3)}, {"pad", pair_of(1, 2)}}), {{2, 2, 4, 9}}),
      example("all by axis",
              conv_options(4, 0,
                           {{"kernel", pair_of(1, 4)},
                            {"stride", pair_of(2, 1)},
                            {"pad", pair_of(1, 3)},
                            {"dilation", pair_of(3, 2)},
                            {"groups", i{2}}}),
              {{2, 4, 5, 7}}),
      example("a series", conv_options(3, 3, {{"stride", i{2}}, {"pad", i{1}}, {"dilation", i{2}}}), {{2, 4, 12}}),
      example("1x1 on 1x1", conv_options(5, 1), {{3, 4, 1, 1}}),
      example("kernel covers the image", conv_options(3, 4), {{5, 2, 4, 4}}),
      example("stride beyond the kernel, size-1 axes", conv_options(1, 1, {{"stride", i{4}}, {"pad", i{1}}}), {{1, 1, 1, 9}}),
      example("several panels", conv_options(17, 5, {{"pad", i{2}}}), {{3, 2, 13, 11}}),
      example("many images", conv_options(3, 2, {{"stride", i{2}}, {"pad", i{1}}}), {{31, 2, 5, 4}}),
      example("many features", conv_options(40, 3, {{"pad", i{1}}}), {{2, 33, 7, 9}}),
  };
}

std::vector<std::string> names_or_same() {
  std::vector<std::string> names{"same"};
  for (auto& n : conv_algorithm_names()) names.push_back(std::move(n));
  return names;
}

option_specs convolution_specs() {
  return {required_integer("outputs", "number of output channels"),
          by_axis_option("kernel", 0, "height and width of the kernel"),
          integer_option("kernel_h", 0, "height of the kernel, if not square"),
          integer_option("kernel_w", 0, "width of the kernel, if not square"),
          by_axis_option("stride", 1, "distance between windows, in pixels", 1),
          by_axis_option("pad", 0, "rows and columns of zeros on each side of the image"),
          by_axis_option("dilation", 1, "distance between kernel elements, in pixels", 1),
          integer_option("groups", 1, "number of independent groups of channels and outputs", 1),
          flag_option("bias", true, "add a bias to each output channel"),
          choice_option("algorithm", conv_algorithm_names(),
                        "algorithm of the f32 passes; f64 uses lowering1 unless another lowering is named; auto: chosen "
                        "by a fixed rule"),
          choice_option("algorithm_data", names_or_same(), "algorithm for the gradient of the input; same: as algorithm"),
          choice_option("algorithm_weights", names_or_same(), "algorithm for the gradient of the weights; same: as algorithm"),
          table_option("weight_filler", "filler of the weights; default xavier"),
          table_option("bias_filler", "filler of the bias; default zero")};
}

// Every case with every algorithm that supports it.
std::vector<layer_case> cases_of_all() {
  std::vector<layer_case> all = convolution_cases();
  const std::size_t plain = all.size();
  const auto specs = convolution_specs();
  for (const auto& name : conv_algorithm_names())
    for (std::size_t c = 0; c < plain && name != "auto"; ++c) {
      layer_case one = all[c];
      const conv_geometry g = conv_on(conv_window(check_options(one.given, specs)), one.in[0]);
      one.name += ", " + name;
      one.given.values["algorithm"] = name;
      if (why_not(conv_algorithm_named(name), g).empty()) all.push_back(std::move(one));
    }
  return all;
}

}  // namespace

layer_type convolution_layer() {
  return {
      .name = "convolution",
      .doc =
          "y[n, o] = bias[o] + sum over c of w[o, c] * x[n, c] (cross-correlation). [N, C, H, W] -> [N, outputs, OH, OW], OH = (H "
          "+ 2 pad - dilation (kernel - 1) - 1) / stride + 1, rounded down. weight [outputs, C / groups, kernel_h, kernel_w], bias "
          "[outputs]. [N, C, L] -> [N, outputs, OL], with weight [outputs, C / groups, kernel]. LeCun et al. 1998.",
      .specs = convolution_specs(),
      .make = [](const options& o) { return std::make_unique<convolution>(o); },
      .cases = cases_of_all()};
}

}  // namespace troupe
