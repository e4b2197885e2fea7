// Conv, ConvTranspose and pooling.
#include <algorithm>
#include <array>

#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

using i64 = std::int64_t;

i64 up(i64 a, i64 b) { return a / b + (a % b != 0); }

// Kernel, strides and padding of two spatial axes.
struct window {
  std::array<i64, 2> kernel, stride, dilation, before, behind;
  bool ceil = false;
  i64 reach(std::size_t a) const { return dilation[a] * (kernel[a] - 1) + 1; }
  bool even() const { return before == behind && before[0] == before[1]; }
};

std::array<i64, 2> two(const node_view& n, const char* name, i64 otherwise, i64 least) {
  const auto v = n.integers(name);
  if (v.empty()) return {otherwise, otherwise};
  if (v.size() != 2)
    throw refusal("attribute '" + std::string(name) + "' has " + std::to_string(v.size()) +
                  " numbers; only images (two axes) are supported");
  for (const auto e : v)
    if (e < least || e > 1'000'000'000) throw refusal("attribute '" + std::string(name) + "' has " + std::to_string(e));
  return {v[0], v[1]};
}

void want_image(const activation& x) {
  if (x.dims.size() != 4) throw refusal("its input is " + text_of(x.dims) + "; only images (N, C, height, width) are supported");
}

i64 the_same(const std::array<i64, 2>& v, const char* what) {
  if (v[0] != v[1])
    throw refusal(std::string(what) + " that differ by axis (" + std::to_string(v[0]) + ", " + std::to_string(v[1]) +
                  ") are not supported");
  return v[0];
}

// `kernel`: of the weights, or zeros to read the attribute.
window window_of(const node_view& n, const activation& x, std::array<i64, 2> kernel) {
  want_image(x);
  window w;
  w.kernel = kernel[0] > 0 ? kernel : two(n, "kernel_shape", 0, 1);
  if (w.kernel[0] < 1 || w.kernel[1] < 1) throw refusal("it has no kernel_shape");
  w.stride = two(n, "strides", 1, 1), w.dilation = two(n, "dilations", 1, 1);
  w.ceil = n.integer("ceil_mode", 0) != 0;
  const auto pads = n.integers("pads");
  if (!pads.empty() && pads.size() != 4)
    throw refusal("attribute 'pads' has " + std::to_string(pads.size()) + " numbers; only images (two axes) are supported");
  for (const auto p : pads)
    if (p < 0 || p > 1'000'000) throw refusal("attribute 'pads' has " + std::to_string(p));
  if (pads.empty())
    w.before = w.behind = {0, 0};
  else
    w.before = {pads[0], pads[1]}, w.behind = {pads[2], pads[3]};
  return w;
}

// auto_pad of Conv and pooling.
void pad_automatically(const node_view& n, const activation& x, window& w) {
  const auto kind = n.text("auto_pad", "NOTSET");
  if (kind == "NOTSET" || kind.empty()) return;
  w.before = w.behind = {0, 0};
  if (kind == "VALID") return;
  if (kind != "SAME_UPPER" && kind != "SAME_LOWER") throw refusal("auto_pad is '" + kind + "'");
  for (std::size_t a = 0; a < 2; ++a) {
    const auto extent = x.dims[2 + a];
    const auto all = std::max<i64>(0, (up(extent, w.stride[a]) - 1) * w.stride[a] + w.reach(a) - extent);
    w.before[a] = kind == "SAME_UPPER" ? all / 2 : all - all / 2;
    w.behind[a] = all - w.before[a];
  }
}

// The stride of an axis with a single window does not matter.
void free_strides(const activation& x, window& w) {
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}})
    if (x.dims[2 + a] + w.before[a] + w.behind[a] == w.reach(a)) w.stride[a] = w.stride[1 - a];
}

// A border around the image, in place of the window's own padding.
activation padded(const node_view& n, const activation& x, window& w, const std::string& mode = "zero") {
  const options_given sides{
      {"top", w.before[0]}, {"left", w.before[1]}, {"bottom", w.behind[0]}, {"right", w.behind[1]}, {"mode", mode}};
  w.before = w.behind = {0, 0};
  return add_layer(n.to, n.name() + "_pad", "pad", {x}, sides)[0];
}

void set_kernel(options_given& o, const window& w) {
  if (w.kernel[0] == w.kernel[1])
    o["kernel"] = w.kernel[0];
  else
    o["kernel_h"] = w.kernel[0], o["kernel_w"] = w.kernel[1];
}

const tensor_value& kernel_weights(const node_view& n) {
  const auto& weight = n.reals(1, "weights");
  if (weight.dims.size() != 4) throw refusal("its weights are " + text_of(weight.dims) + "; only images (two axes) are supported");
  return weight;
}

std::vector<std::vector<float>> with_bias(const node_view& n, i64 outputs) {
  std::vector<std::vector<float>> all{n.reals_of(1, "weights", kernel_weights(n).count())};
  if (n.given(2)) all.push_back(n.reals_of(2, "bias", outputs));
  return all;
}

options_given conv_options_of(const node_view& n, const window& w, i64 outputs) {
  options_given o{{"outputs", outputs}, {"bias", n.given(2)}};
  set_kernel(o, w);
  o["stride"] = the_same(w.stride, "strides"), o["dilation"] = the_same(w.dilation, "dilations"),
  o["groups"] = n.integer("group", 1);
  o["pad"] = w.before[0];
  return o;
}

void take_conv(const node_view& n) {
  auto x = n.plain(0);
  const auto& weight = kernel_weights(n);
  auto w = window_of(n, x, {weight.dims[2], weight.dims[3]});
  pad_automatically(n, x, w);
  free_strides(x, w);
  if (!w.even()) x = padded(n, x, w);
  n.result(n.layer("convolution", {x}, conv_options_of(n, w, weight.dims[0]), with_bias(n, weight.dims[0])));
}

void take_conv_transpose(const node_view& n) {
  const auto x = n.plain(0);
  const auto& weight = kernel_weights(n);
  auto w = window_of(n, x, {weight.dims[2], weight.dims[3]});
  const auto extra = two(n, "output_padding", 0, 0);
  const auto groups = n.integer("group", 1);
  if (weight.dims[1] > 1'000'000 || groups < 1 || groups > 1'000'000) throw refusal("it has too many outputs or groups");
  const auto full = [&](std::size_t a) { return (x.dims[2 + a] - 1) * w.stride[a] + w.reach(a) + extra[a]; };
  const auto kind = n.text("auto_pad", "NOTSET");
  const auto shape_asked = n.integers("output_shape");
  if (kind == "SAME_UPPER" || kind == "SAME_LOWER" || !shape_asked.empty()) {
    if (!shape_asked.empty() && shape_asked.size() < 2)
      throw refusal("attribute 'output_shape' has one number; only images (two axes) are supported");
    for (std::size_t a = 0; a < 2; ++a) {
      const auto out = shape_asked.empty() ? x.dims[2 + a] * w.stride[a] : shape_asked[shape_asked.size() - 2 + a];
      const auto all = full(a) - out;
      if (all < 0) throw refusal("its output is larger than its windows reach");
      w.before[a] = kind == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.behind[a] = all - w.before[a];
    }
  }
  const bool whole = !w.even();  // the full output, which is then cropped
  const auto cut = w;
  if (whole || extra[0] != extra[1]) w.before = w.behind = {0, 0};
  auto o = conv_options_of(n, w, weight.dims[1] * groups);
  o["output_pad"] = the_same(extra, "output_padding");
  auto y = n.layer("deconvolution", {x}, o, with_bias(n, weight.dims[1] * groups));
  if (whole)
    y = add_layer(n.to, n.name() + "_crop", "crop", {y},
                  {{"size", extents{full(0) - cut.before[0] - cut.behind[0], full(1) - cut.before[1] - cut.behind[1]}},
                   {"offsets", extents{cut.before[0], cut.before[1]}}})[0];
  n.result(y);
}

// The output extent of ONNX. With ceil_mode, windows that begin behind the image and the padding
// before it do not count, as in PyTorch.
i64 pooled_extent(const window& w, std::size_t a, i64 extent) {
  const auto room = extent + w.before[a] + w.behind[a] - w.reach(a);
  if (room < 0) throw refusal("its window is larger than the image and its padding");
  auto out = (w.ceil ? up(room, w.stride[a]) : room / w.stride[a]) + 1;
  if (w.ceil && (out - 1) * w.stride[a] >= extent + w.before[a]) --out;
  return out;
}

i64 caffe_extent(i64 extent, i64 kernel, i64 stride, i64 pad, bool ceil) {
  const auto room = extent + 2 * pad - kernel;
  if (room < 0) return -1;
  auto out = (ceil ? up(room, stride) : room / stride) + 1;
  if (ceil && (out - 1) * stride >= extent + pad) --out;
  return out;
}

// The rounding with which Troupe's windows are those of `w`; none if its padding is another.
std::optional<std::string> rounding_for(const window& w, const activation& x) {
  if (w.before[0] != w.before[1]) return std::nullopt;
  for (const bool ceil : {false, true}) {
    bool same = true;
    for (std::size_t a = 0; a < 2; ++a)
      same &= caffe_extent(x.dims[2 + a], w.kernel[a], w.stride[a], w.before[a], ceil) == pooled_extent(w, a, x.dims[2 + a]);
    if (same) return ceil ? "ceil" : "floor";
  }
  return std::nullopt;
}

// A mean over windows of an image with a border of zeros, which count as those of Troupe's padding
// do: the border becomes the window's padding, and its layer is removed.
std::optional<std::string> absorb_border(const node_view& n, activation& x, window& w) {
  auto& layers = n.to.layers;
  const auto border =
      std::find_if(layers.begin(), layers.end(), [&](const draft_layer& d) { return d.name == x.tensor && d.type == "pad"; });
  if (border == layers.end() || w.before != std::array<i64, 2>{0, 0} || n.to.readers[n.is.inputs[0]] != 1) return std::nullopt;
  std::set<i64> widths;
  for (const char* side : {"top", "left", "bottom", "right"}) widths.insert(std::get<i64>(border->given.at(side)));
  if (widths.size() != 1 || std::get<std::string>(border->given.at("mode")) != "zero") return std::nullopt;
  const auto pad = *widths.begin();
  for (const bool ceil : {false, true}) {
    bool same = pad < w.kernel[0] && pad < w.kernel[1];
    for (std::size_t a = 0; a < 2; ++a)
      same =
          same && caffe_extent(x.dims[2 + a] - 2 * pad, w.kernel[a], w.stride[a], pad, ceil) == pooled_extent(w, a, x.dims[2 + a]);
    if (!same) continue;
    x = activation_of(border->inputs[0], {x.dims[0], x.dims[1], x.dims[2] - 2 * pad, x.dims[3] - 2 * pad});
    w.before = w.behind = {pad, pad};
    layers.erase(border);
    return ceil ? "ceil" : "floor";
  }
  return std::nullopt;
}

// The same maxima over an image whose border repeats its edge: the pixel that a border repeats is
// in every window that reaches the border. Returns false if a window may lie in the border alone.
bool edge_border(const node_view& n, activation& x, window& w) {
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) {
    const auto end = (pooled_extent(w, a, x.dims[2 + a]) - 1) * w.stride[a] + w.kernel[a];
    w.behind[a] = std::max<i64>(0, end - x.dims[2 + a] - w.before[a]);
    if (w.before[a] >= w.kernel[a] || w.behind[a] >= w.kernel[a]) return false;
  }
  w.ceil = false;
  x = padded(n, x, w, "edge");
  return true;
}

void take_pool(const node_view& n, bool average) {
  auto x = n.plain(0);
  auto w = window_of(n, x, {0, 0});
  pad_automatically(n, x, w);
  free_strides(x, w);
  if (w.dilation != std::array<i64, 2>{1, 1}) throw refusal("dilations are not supported");
  if (n.read(1)) throw refusal("its second output, the indices, is not supported");
  bool counts = average && n.integer("count_include_pad", 0) != 0;
  std::optional<std::string> rounding;
  if (average && !counts) {
    rounding = absorb_border(n, x, w);
    counts = rounding.has_value();
  }
  if (!rounding) rounding = rounding_for(w, x);
  // A divisor of whole windows although they reach further than Troupe's padding.
  const auto beyond = [&](std::size_t a) {
    return (pooled_extent(w, a, x.dims[2 + a]) - 1) * w.stride[a] + w.kernel[a] > x.dims[2 + a] + 2 * w.before[a];
  };
  if (average && counts && !w.ceil && (!rounding || beyond(0) || beyond(1))) {
    x = padded(n, x, w);
    rounding = rounding_for(w, x);
  }
  if (!average && !rounding && edge_border(n, x, w)) rounding = "floor";
  if (!rounding)
    throw refusal("its padding (" + std::to_string(w.before[0]) + ", " + std::to_string(w.before[1]) + " before; " +
                  std::to_string(w.behind[0]) + ", " + std::to_string(w.behind[1]) + " behind) is not supported");
  options_given o{{"stride", the_same(w.stride, "strides")}, {"pad", w.before[0]}, {"rounding", *rounding}};
  set_kernel(o, w);
  if (average) o["count_padding"] = counts;
  n.result(n.layer(average ? "avg_pool" : "max_pool", {x}, o));
}

void take_max_pool(const node_view& n) { take_pool(n, false); }
void take_average_pool(const node_view& n) { take_pool(n, true); }

void take_global(const node_view& n, const char* type) {
  const auto x = n.plain(0);
  want_image(x);
  n.result(n.layer(type, {x}));
}
void take_global_max(const node_view& n) { take_global(n, "max_pool"); }
void take_global_average(const node_view& n) { take_global(n, "avg_pool"); }

// The mean over height and width.
void take_reduce_mean(const node_view& n) {
  const auto x = n.plain(0);
  want_image(x);
  auto axes = n.list("axes", 1);
  for (auto& a : axes) a = n.axis(a, 4);
  std::sort(axes.begin(), axes.end());
  if (axes != extents{2, 3}) throw refusal("only means over height and width (axes 2 and 3) are supported");
  const auto y = n.layer("avg_pool", {x});
  n.result(n.integer("keepdims", 1) != 0 ? y : reshaped(y, {y.dims[0], y.dims[1]}));
}

}  // namespace

handlers window_handlers() {
  return {{"Conv", take_conv},
          {"ConvTranspose", take_conv_transpose},
          {"MaxPool", take_max_pool},
          {"AveragePool", take_average_pool},
          {"GlobalMaxPool", take_global_max},
          {"GlobalAveragePool", take_global_average},
          {"ReduceMean", take_reduce_mean}};
}

}  // namespace troupe::onnx
