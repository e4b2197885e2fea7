// Convolution and pooling.
#include "ops/window_options.hpp"
#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

// The values of the spatial axes of images [N, C, H, W], or of [N, C, L].
std::vector<std::int64_t> spatial(const layer_writer& w, const by_axes& v) {
  return w.in().rank() == 4 ? std::vector<std::int64_t>{v[0], v[1]} : std::vector<std::int64_t>{v[1]};
}
// The paddings before and behind the axes.
std::vector<std::int64_t> pads_of(const layer_writer& w, const by_axes& before, const by_axes& behind) {
  auto all = spatial(w, before);
  for (const auto p : spatial(w, behind)) all.push_back(p);
  return all;
}

attributes conv_attributes(const layer_writer& w) {
  const auto& o = w.given();
  const auto pad = o.by_axis("pad");
  return {list_of("kernel_shape", spatial(w, kernel_of(o))), list_of("strides", spatial(w, o.by_axis("stride"))),
          list_of("pads", pads_of(w, pad, pad)), list_of("dilations", spatial(w, o.by_axis("dilation"))),
          attribute_of("group", o.integer("groups"))};
}

std::vector<std::string> conv_inputs(layer_writer& w) {
  std::vector<std::string> inputs{w.input(), w.weight("weight")};
  if (w.has("bias")) inputs.push_back(w.weight("bias"));
  return inputs;
}

expected<void> export_convolution(layer_writer& w) {
  w.add(part::whole, "Conv", conv_inputs(w), conv_attributes(w));
  return {};
}

expected<void> export_deconvolution(layer_writer& w) {
  auto with = conv_attributes(w);
  with.push_back(list_of("output_padding", spatial(w, w.given().by_axis("output_pad"))));
  w.add(part::whole, "ConvTranspose", conv_inputs(w), std::move(with));
  return {};
}

// Conv reads [N, D, T].
expected<void> export_sequence_convolution(layer_writer& w) {
  const auto& o = w.given();
  const auto [before, behind] = sequence_padding(o, w.in()[1]);
  const auto turned = [&](part p, const std::string& of) { return w.add(p, "Transpose", {of}, {list_of("perm", {0, 2, 1})}); };
  auto inputs = conv_inputs(w);
  inputs[0] = turned(part::inner, inputs[0]);
  const auto y = w.add(
      part::main, "Conv", std::move(inputs),
      {list_of("kernel_shape", {o.integer("kernel")}), list_of("strides", {o.integer("stride")}), list_of("pads", {before, behind}),
       list_of("dilations", {o.integer("dilation")}), attribute_of("group", o.integer("groups"))});
  turned(part::last, y);
  return {};
}

// The padding behind an axis with which ONNX's extents, rounded down, are those of Troupe: windows
// begin inside the image or the padding before it, so it is smaller than the kernel.
std::int64_t pad_behind(std::int64_t extent, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  if ((extent + 2 * pad - kernel) / stride + 1 == out) return pad;
  return std::max<std::int64_t>(0, (out - 1) * stride + kernel - extent - pad);
}

expected<void> export_pool(layer_writer& w, bool average) {
  const auto& o = w.given();
  const auto kernel = kernel_of(o), stride = o.by_axis("stride");
  if (kernel[0] == 0) {
    w.add(part::whole, average ? "GlobalAveragePool" : "GlobalMaxPool", {w.input()});
    return {};
  }
  auto pad = o.by_axis("pad"), behind = pad;
  bool beyond = false;
  const int first = w.in().rank() - 2;  // of the axes: 0 or, for [N, C, L], 1
  for (int a = 4 - w.in().rank(); a < 2; ++a) {
    const auto k = static_cast<std::size_t>(a);
    behind[k] = pad_behind(w.in()[first + a], w.out()[first + a], kernel[k], stride[k], pad[k]);
    beyond = beyond || behind[k] > pad[k];
  }
  auto input = w.input();
  bool counts = average && o.flag("count_padding");
  if (counts && beyond) {
    // The divisor counts padding, but nothing beyond it: zeros that are part of the image count,
    // and the padding of AveragePool does not.
    std::vector<std::int64_t> border{0, 0};
    for (const auto p : spatial(w, pad)) border.push_back(p);
    const auto half = border;
    border.insert(border.end(), half.begin(), half.end());
    input = w.add(part::inner, "Pad", {input, w.integers("pads", border)});
    for (std::size_t k = 0; k < 2; ++k) behind[k] = std::max<std::int64_t>(0, behind[k] - pad[k]);
    pad = {0, 0};
    counts = false;
  }
  attributes with{list_of("kernel_shape", spatial(w, kernel)), list_of("strides", spatial(w, stride)),
                  list_of("pads", pads_of(w, pad, behind))};
  if (average) with.push_back(attribute_of("count_include_pad", std::int64_t{counts}));
  w.add(part::whole, average ? "AveragePool" : "MaxPool", {input}, std::move(with));
  return {};
}

expected<void> export_max_pool(layer_writer& w) { return export_pool(w, false); }
expected<void> export_avg_pool(layer_writer& w) { return export_pool(w, true); }

}  // namespace

layer_exports window_exports() {
  return {{"convolution", export_convolution},
          {"sequence_convolution", export_sequence_convolution},
          {"deconvolution", export_deconvolution},
          {"max_pool", export_max_pool},
          {"avg_pool", export_avg_pool}};
}

}  // namespace troupe::onnx
