// Convolution and pooling.
#include "runtime/node/models/onnx/layer_writer.hpp"

namespace troupe::onnx {
namespace {

std::int64_t side_or(const options& o, const char* key) { return o.integer(key) > 0 ? o.integer(key) : o.integer("kernel"); }

attributes conv_attributes(const options& o) {
  const auto stride = o.integer("stride"), pad = o.integer("pad"), dilation = o.integer("dilation");
  return {list_of("kernel_shape", {side_or(o, "kernel_h"), side_or(o, "kernel_w")}), list_of("strides", {stride, stride}),
          list_of("pads", {pad, pad, pad, pad}), list_of("dilations", {dilation, dilation}),
          attribute_of("group", o.integer("groups"))};
}

std::vector<std::string> conv_inputs(layer_writer& w) {
  std::vector<std::string> inputs{w.input(), w.weight("weight")};
  if (w.has("bias")) inputs.push_back(w.weight("bias"));
  return inputs;
}

expected<void> export_convolution(layer_writer& w) {
  w.add(part::whole, "Conv", conv_inputs(w), conv_attributes(w.given()));
  return {};
}

expected<void> export_deconvolution(layer_writer& w) {
  auto with = conv_attributes(w.given());
  const auto extra = w.given().integer("output_pad");
  with.push_back(list_of("output_padding", {extra, extra}));
  w.add(part::whole, "ConvTranspose", conv_inputs(w), std::move(with));
  return {};
}

// The windows along one axis. `behind` is the padding behind the image with which ONNX's extents,
// rounded down, are those of Troupe: windows begin inside the image or the padding before it, so it
// is smaller than the kernel.
struct windows {
  std::int64_t kernel, stride, pad, behind;

  windows(std::int64_t extent, std::int64_t out, std::int64_t kernel_, std::int64_t stride_, std::int64_t pad_)
      : kernel(kernel_), stride(stride_), pad(pad_), behind(std::max<std::int64_t>(0, (out - 1) * stride + kernel - extent - pad)) {
    if ((extent + 2 * pad - kernel) / stride + 1 == out) behind = pad;
  }
};

expected<void> export_pool(layer_writer& w, bool average) {
  const auto& o = w.given();
  if (side_or(o, "kernel_h") == 0) {
    w.add(part::whole, average ? "GlobalAveragePool" : "GlobalMaxPool", {w.input()});
    return {};
  }
  const auto stride = o.integer("stride"), pad = o.integer("pad");
  windows h(w.in()[2], w.out()[2], side_or(o, "kernel_h"), stride, pad),
      v(w.in()[3], w.out()[3], side_or(o, "kernel_w"), stride, pad);
  auto input = w.input();
  bool counts = average && o.flag("count_padding");
  if (counts && (h.behind > pad || v.behind > pad)) {
    // The divisor counts padding, but nothing beyond it: zeros that are part of the image count,
    // and the padding of AveragePool does not.
    input = w.add(part::inner, "Pad", {input, w.integers("pads", {0, 0, pad, pad, 0, 0, pad, pad})});
    for (auto* side : {&h, &v}) side->behind = std::max<std::int64_t>(0, side->behind - pad), side->pad = 0;
    counts = false;
  }
  attributes with{list_of("kernel_shape", {h.kernel, v.kernel}), list_of("strides", {stride, stride}),
                  list_of("pads", {h.pad, v.pad, h.behind, v.behind})};
  if (average) with.push_back(attribute_of("count_include_pad", std::int64_t{counts}));
  w.add(part::whole, average ? "AveragePool" : "MaxPool", {input}, std::move(with));
  return {};
}

expected<void> export_max_pool(layer_writer& w) { return export_pool(w, false); }
expected<void> export_avg_pool(layer_writer& w) { return export_pool(w, true); }

}  // namespace

layer_exports window_exports() {
  return {{"convolution", export_convolution},
          {"deconvolution", export_deconvolution},
          {"max_pool", export_max_pool},
          {"avg_pool", export_avg_pool}};
}

}  // namespace troupe::onnx
