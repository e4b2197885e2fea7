// What convolution and deconvolution share: their options and inputs.
#pragma once

#include "ops/layer_support.hpp"
#include "ops/window_options.hpp"

namespace troupe {

// Reads kernel, stride, pad, dilation, groups and outputs. Batch, channels and extents are set from
// the input later. Throws option_error.
inline conv_geometry conv_window(const options& o) {
  conv_geometry g;
  g.outputs = o.integer("outputs");
  const auto kernel = kernel_of(o), stride = o.by_axis("stride"), pad = o.by_axis("pad"), dilation = o.by_axis("dilation");
  if (kernel[0] <= 0 || kernel[1] <= 0) throw option_error("kernel", "set 'kernel', or both 'kernel_h' and 'kernel_w'");
  g.kernel_h = kernel[0], g.kernel_w = kernel[1];
  g.stride_h = stride[0], g.stride_w = stride[1];
  g.pad_h = pad[0], g.pad_w = pad[1];
  g.dilation_h = dilation[0], g.dilation_w = dilation[1];
  g.groups = o.integer("groups");
  if (g.outputs % g.groups != 0) throw option_error("groups", "'outputs' must be a multiple of 'groups'");
  return g;
}

// Throws shape_error unless the input is [N, C, H, W], or [N, C, L] and the window is square.
inline void want_images(const conv_geometry& g, const shapes& in) {
  const bool square = g.kernel_h == g.kernel_w && g.stride_h == g.stride_w && g.pad_h == g.pad_w && g.dilation_h == g.dilation_w;
  want(in.size() == 1 && (in[0].rank() == 4 || (in[0].rank() == 3 && square)),
       square ? "one input [N, C, H, W] or [N, C, L]" : "one input [N, C, H, W] for a window that differs by axis", in);
}

// The geometry for an input [N, C, H, W], or [N, C, L] as images of height 1.
inline conv_geometry conv_on(conv_geometry g, const shape& x) {
  g.batch = x[0], g.channels = x[1], g.height = x[2], g.width = x[x.rank() - 1];
  if (x.rank() == 3) g.height = g.kernel_h = g.stride_h = g.dilation_h = 1, g.pad_h = 0;
  return g;
}

// Extents of the weights: `to` and `from` channels, and the kernel. One axis for inputs [N, C, L].
inline shape conv_weights(const conv_geometry& g, const shape& x, std::int64_t to, std::int64_t from) {
  return x.rank() == 4 ? shape{to, from, g.kernel_h, g.kernel_w} : shape{to, from, g.kernel_w};
}

// Options for a check_layer case.
inline options conv_options(std::int64_t outputs, std::int64_t kernel, std::map<std::string, option_value, std::less<>> more = {}) {
  more["outputs"] = outputs;
  more.emplace("kernel", kernel);
  return {std::move(more)};
}
inline option_value pair_of(std::int64_t height, std::int64_t width) { return std::vector<std::int64_t>{height, width}; }

}  // namespace troupe
