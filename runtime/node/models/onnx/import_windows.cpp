// Conv, ConvTranspose and pooling.
#include <algorithm>

#include "ops/window_options.hpp"
#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {
namespace {

using i64 = std::int64_t;

i64 up(i64 a, i64 b) { return a / b + (a % b != 0); }

using pair = by_axes;

// Kernel, strides and padding of two spatial axes. [N, C, L] is an image of height 1.
struct window {
  pair kernel, stride, dilation, before, behind;
  bool ceil = false;
  i64 reach(std::size_t a) const { return dilation[a] * (kernel[a] - 1) + 1; }
  bool even() const { return before == behind; }
};

void want_image(const activation& x) {
  if (x.dims.size() != 3 && x.dims.size() != 4)
    throw refusal("its input is " + text_of(x.dims) +
                  "; only series (N, C, length) and images (N, C, height, width) are supported");
}

i64 extent_of(const activation& x, std::size_t a) { return x.dims.size() == 4 ? x.dims[2 + a] : a == 0 ? 1 : x.dims[2]; }
// The axes that x has: 0 and 1, or 1.
std::size_t first_axis(const activation& x) { return 4 - x.dims.size(); }

// `count` numbers for each spatial axis of x.
extents by_axis_list(const node_view& n, const activation& x, const char* name, std::size_t count) {
  auto v = n.integers(name);
  if (!v.empty() && v.size() != count * (x.dims.size() - 2))
    throw refusal("attribute '" + std::string(name) + "' has " + std::to_string(v.size()) + " numbers, but its input is " +
                  text_of(x.dims));
  return v;
}

pair by_axis(const node_view& n, const activation& x, const char* name, i64 otherwise, i64 least) {
  const auto v = by_axis_list(n, x, name, 1);
  if (v.empty()) return {otherwise, otherwise};
  for (const auto e : v)
    if (e < least || e > 1'000'000'000) throw refusal("attribute '" + std::string(name) + "' has " + std::to_string(e));
  return {v.size() == 2 ? v[0] : otherwise, v.back()};
}

// `kernel`: of the weights, or zeros to read the attribute.
window window_of(const node_view& n, const activation& x, pair kernel) {
  want_image(x);
  window w;
  w.kernel = kernel[1] > 0 ? kernel : by_axis(n, x, "kernel_shape", 1, 1);
  if (kernel[1] < 1 && !n.has("kernel_shape")) throw refusal("it has no kernel_shape");
  w.stride = by_axis(n, x, "strides", 1, 1), w.dilation = by_axis(n, x, "dilations", 1, 1);
  w.ceil = n.integer("ceil_mode", 0) != 0;
  const auto pads = by_axis_list(n, x, "pads", 2);
  for (const auto p : pads)
    if (p < 0 || p > 1'000'000) throw refusal("attribute 'pads' has " + std::to_string(p));
  w.before = w.behind = {0, 0};
  if (pads.size() == 4)
    w.before = {pads[0], pads[1]}, w.behind = {pads[2], pads[3]};
  else if (!pads.empty())
    w.before[1] = pads[0], w.behind[1] = pads[1];
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
    const auto extent = extent_of(x, a);
    const auto all = std::max<i64>(0, (up(extent, w.stride[a]) - 1) * w.stride[a] + w.reach(a) - extent);
    w.before[a] = kind == "SAME_UPPER" ? all / 2 : all - all / 2;
    w.behind[a] = all - w.before[a];
  }
}

// The stride of an axis with a single window does not matter.
void free_strides(const activation& x, window& w) {
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}})
    if (extent_of(x, a) + w.before[a] + w.behind[a] == w.reach(a)) w.stride[a] = w.stride[1 - a];
}

// A border around the image, in place of the window's own padding.
activation padded(const node_view& n, const activation& x, window& w, const std::string& mode = "zero") {
  const options_given sides{
      {"top", w.before[0]}, {"left", w.before[1]}, {"bottom", w.behind[0]}, {"right", w.behind[1]}, {"mode", mode}};
  w.before = w.behind = {0, 0};
  return add_layer(n.to, n.name() + "_pad", "pad", {x}, sides)[0];
}

// One number for [N, C, L].
void set_by_axis(options_given& o, const char* key, const activation& x, const pair& v) {
  if (first_axis(x) == 1 || v[0] == v[1])
    o[key] = v[1];
  else
    o[key] = extents{v[0], v[1]};
}

const tensor_value& kernel_weights(const node_view& n, const activation& x) {
  const auto& weight = n.reals(1, "weights");
  want_image(x);
  if (weight.dims.size() != x.dims.size())
    throw refusal("its weights are " + text_of(weight.dims) + ", but its input is " + text_of(x.dims));
  return weight;
}
pair kernel_of(const tensor_value& weight) { return {weight.dims.size() == 4 ? weight.dims[2] : 1, weight.dims.back()}; }

std::vector<std::vector<float>> with_bias(const node_view& n, i64 outputs) {
  std::vector<std::vector<float>> all{n.reals_of(1, "weights", n.reals(1, "weights").count())};
  if (n.given(2)) all.push_back(n.reals_of(2, "bias", outputs));
  return all;
}

options_given conv_options_of(const node_view& n, const activation& x, const window& w, i64 outputs) {
  options_given o{{"outputs", outputs}, {"bias", n.given(2)}, {"groups", n.integer("group", 1)}};
  set_by_axis(o, "kernel", x, w.kernel);
  set_by_axis(o, "stride", x, w.stride);
  set_by_axis(o, "dilation", x, w.dilation);
  set_by_axis(o, "pad", x, w.before);
  return o;
}

// Over the steps of sequences [N, T, D] that the graph has transposed to [N, D, T].
void take_sequence_conv(const node_view& n, const activation& view) {
  const auto series = activation_of(view.tensor, view.shown());
  const auto& weight = kernel_weights(n, series);
  auto w = window_of(n, series, kernel_of(weight));
  pad_automatically(n, series, w);
  options_given o = conv_options_of(n, series, w, weight.dims[0]);
  bool found = w.before[1] == w.behind[1];
  for (const char* word : {"same", "causal"}) {
    if (found) break;
    o["pad"] = std::string(word);
    found = sequence_padding({o}, view.dims[1]) == pair{w.before[1], w.behind[1]};
  }
  if (!found)
    throw refusal(
        "its padding of " + std::to_string(w.before[1]) + " steps before and " + std::to_string(w.behind[1]) +
        " behind the sequence is not supported: the same on both sides, and before it alone as many as the kernel spans, are");
  auto y = n.layer("sequence_convolution", {activation_of(view.tensor, view.dims)}, o, with_bias(n, weight.dims[0]));
  y.axes = {0, 2, 1};
  n.result(y);
}

void take_conv(const node_view& n) {
  if (const auto& view = n.active(0); view.axes == std::vector<int>{0, 2, 1} && view.merged >= view.dims.size())
    return take_sequence_conv(n, view);
  auto x = n.plain(0);
  const auto& weight = kernel_weights(n, x);
  auto w = window_of(n, x, kernel_of(weight));
  pad_automatically(n, x, w);
  free_strides(x, w);
  if (!w.even()) x = padded(n, x, w);
  n.result(n.layer("convolution", {x}, conv_options_of(n, x, w, weight.dims[0]), with_bias(n, weight.dims[0])));
}

void take_conv_transpose(const node_view& n) {
  const auto x = n.plain(0);
  const auto& weight = kernel_weights(n, x);
  auto w = window_of(n, x, kernel_of(weight));
  const auto extra = by_axis(n, x, "output_padding", 0, 0);
  const auto groups = n.integer("group", 1);
  if (weight.dims[1] > 1'000'000 || groups < 1 || groups > 1'000'000) throw refusal("it has too many outputs or groups");
  const auto full = [&](std::size_t a) { return (extent_of(x, a) - 1) * w.stride[a] + w.reach(a) + extra[a]; };
  const auto kind = n.text("auto_pad", "NOTSET");
  const auto shape_asked = n.integers("output_shape");
  if (kind == "SAME_UPPER" || kind == "SAME_LOWER" || !shape_asked.empty()) {
    const auto axes = x.dims.size() - 2;
    if (!shape_asked.empty() && shape_asked.size() < axes) throw refusal("attribute 'output_shape' has too few numbers");
    for (auto a = first_axis(x); a < 2; ++a) {
      const auto out = shape_asked.empty() ? extent_of(x, a) * w.stride[a] : shape_asked[shape_asked.size() - 2 + a];
      const auto all = full(a) - out;
      if (all < 0) throw refusal("its output is larger than its windows reach");
      w.before[a] = kind == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.behind[a] = all - w.before[a];
    }
  }
  const bool whole = !w.even();  // the full output, which is then cropped
  const auto cut = w;
  if (whole) w.before = w.behind = {0, 0};
  auto o = conv_options_of(n, x, w, weight.dims[1] * groups);
  set_by_axis(o, "output_pad", x, extra);
  auto y = n.layer("deconvolution", {x}, o, with_bias(n, weight.dims[1] * groups));
  if (whole) {
    extents size, offsets;
    for (auto a = first_axis(x); a < 2; ++a)
      size.push_back(full(a) - cut.before[a] - cut.behind[a]), offsets.push_back(cut.before[a]);
    y = add_layer(n.to, n.name() + "_crop", "crop", {y}, {{"size", size}, {"offsets", offsets}})[0];
  }
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
  for (const bool ceil : {false, true}) {
    bool same = true;
    for (std::size_t a = 0; a < 2; ++a)
      same &= caffe_extent(extent_of(x, a), w.kernel[a], w.stride[a], w.before[a], ceil) == pooled_extent(w, a, extent_of(x, a));
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
  if (border == layers.end() || w.before != pair{0, 0} || n.to.readers[n.is.inputs[0]] != 1) return std::nullopt;
  const auto side = [&](const char* name) { return std::get<i64>(border->given.at(name)); };
  if (side("top") != side("bottom") || side("left") != side("right") || std::get<std::string>(border->given.at("mode")) != "zero")
    return std::nullopt;
  const pair pad{side("top"), side("left")};
  for (const bool ceil : {false, true}) {
    bool same = pad[0] < w.kernel[0] && pad[1] < w.kernel[1];
    for (std::size_t a = 0; a < 2; ++a)
      same = same && caffe_extent(extent_of(x, a) - 2 * pad[a], w.kernel[a], w.stride[a], pad[a], ceil) ==
                         pooled_extent(w, a, extent_of(x, a));
    if (!same) continue;
    auto inner = x.dims;
    for (auto a = first_axis(x); a < 2; ++a) inner[x.dims.size() - 2 + a] -= 2 * pad[a];
    x = activation_of(border->inputs[0], std::move(inner));
    w.before = w.behind = pad;
    layers.erase(border);
    return ceil ? "ceil" : "floor";
  }
  return std::nullopt;
}

// The same maxima over an image whose border repeats its edge: the pixel that a border repeats is
// in every window that reaches the border. Returns false if a window may lie in the border alone.
bool edge_border(const node_view& n, activation& x, window& w) {
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) {
    const auto end = (pooled_extent(w, a, extent_of(x, a)) - 1) * w.stride[a] + w.kernel[a];
    w.behind[a] = std::max<i64>(0, end - extent_of(x, a) - w.before[a]);
    if (w.before[a] >= w.kernel[a] || w.behind[a] >= w.kernel[a]) return false;
  }
  w.ceil = false;
  x = padded(n, x, w, "edge");
  return true;
}

// A mean that does not count its padding, which differs before and behind: of stride 1, with the
// larger padding on both sides, and the windows that this adds cut off. Then the windows of its own
// stride are picked.
void take_uneven_mean(const node_view& n, const activation& x, const window& w) {
  extents size, offsets;
  pair pad;
  for (const std::size_t a : {std::size_t{0}, std::size_t{1}}) pad[a] = std::max(w.before[a], w.behind[a]);
  for (auto a = first_axis(x); a < 2; ++a)
    size.push_back((pooled_extent(w, a, extent_of(x, a)) - 1) * w.stride[a] + 1), offsets.push_back(pad[a] - w.before[a]);
  options_given o{{"rounding", std::string("floor")}, {"count_padding", false}};
  set_by_axis(o, "kernel", x, w.kernel);
  set_by_axis(o, "pad", x, pad);
  const auto y = add_layer(n.to, n.name() + "_mean", "avg_pool", {x}, o)[0];
  const options_given cut{{"size", size}, {"offsets", offsets}};
  if (w.stride == pair{1, 1}) return n.result(n.layer("crop", {y}, cut));
  const auto windows = add_layer(n.to, n.name() + "_crop", "crop", {y}, cut)[0];
  options_given picked{{"rounding", std::string("floor")}};
  set_by_axis(picked, "kernel", x, {1, 1});
  set_by_axis(picked, "stride", x, w.stride);
  n.result(n.layer("max_pool", {windows}, picked));
}

void take_pool(const node_view& n, bool average) {
  auto x = n.plain(0);
  auto w = window_of(n, x, {0, 0});
  pad_automatically(n, x, w);
  free_strides(x, w);
  if (w.dilation != pair{1, 1}) throw refusal("dilations are not supported");
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
    return (pooled_extent(w, a, extent_of(x, a)) - 1) * w.stride[a] + w.kernel[a] > extent_of(x, a) + 2 * w.before[a];
  };
  if (average && counts && !w.ceil && (!rounding || beyond(0) || beyond(1))) {
    x = padded(n, x, w);
    rounding = rounding_for(w, x);
  }
  if (!average && !rounding && edge_border(n, x, w)) rounding = "floor";
  if (!rounding && average && !counts && !w.ceil) return take_uneven_mean(n, x, w);
  if (!rounding)
    throw refusal("its padding (" + std::to_string(w.before[0]) + ", " + std::to_string(w.before[1]) + " before; " +
                  std::to_string(w.behind[0]) + ", " + std::to_string(w.behind[1]) + " behind) is not supported");
  options_given o{{"rounding", *rounding}};
  set_by_axis(o, "kernel", x, w.kernel);
  set_by_axis(o, "stride", x, w.stride);
  set_by_axis(o, "pad", x, w.before);
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

// The mean over height and width, over the length of series [N, C, L], or over the steps of
// sequences [N, T, D].
void take_reduce_mean(const node_view& n) {
  const auto turned = with_batch_in_front(n.to, n.active(0));
  auto x = turned.plain;
  const auto rank = x.dims.size();
  auto axes = n.list("axes", 1), given_axes = axes;
  for (auto& a : given_axes) a = n.axis(a, rank);
  for (auto& a : axes) a = turned.axis(n.axis(a, rank));
  std::sort(given_axes.begin(), given_axes.end(), std::greater<>());
  std::sort(axes.begin(), axes.end());
  const bool steps = rank == 3 && axes == extents{1};
  if (!steps && !(rank == 3 && axes == extents{2}) && !(rank == 4 && axes == extents{2, 3}))
    throw refusal("only means over height and width (axes 2 and 3), and over one axis of series and sequences, are supported");
  if (steps) std::swap(x.axes[1], x.axes[2]);  // the steps become the length
  auto y = n.layer("avg_pool", {plain_of(n.to, x)});
  if (steps) std::swap(y.axes[1], y.axes[2]);
  y = turned.back(y);
  n.result(n.integer("keepdims", 1) == 0 ? dropped(n.to, n.name() + "_mean", y, given_axes) : y);
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
