// Options that convolution and deconvolution share.
#pragma once

#include "ops/layer_support.hpp"

namespace troupe {

// Reads kernel, stride, pad, dilation, groups and outputs. Batch, channels and extents are set from
// the input later. Throws option_error.
inline conv_geometry conv_window(const options& o) {
  conv_geometry g;
  g.outputs = o.integer("outputs");
  const std::int64_t kernel = o.integer("kernel");
  g.kernel_h = o.integer("kernel_h") > 0 ? o.integer("kernel_h") : kernel;
  g.kernel_w = o.integer("kernel_w") > 0 ? o.integer("kernel_w") : kernel;
  if (g.kernel_h <= 0 || g.kernel_w <= 0) throw option_error("kernel", "set 'kernel', or both 'kernel_h' and 'kernel_w'");
  g.stride_h = g.stride_w = o.integer("stride");
  g.pad_h = g.pad_w = o.integer("pad");
  g.dilation_h = g.dilation_w = o.integer("dilation");
  g.groups = o.integer("groups");
  if (g.outputs % g.groups != 0) throw option_error("groups", "'outputs' must be a multiple of 'groups'");
  return g;
}

// Options for a check_layer case.
inline options conv_options(std::int64_t outputs, std::int64_t kernel, std::map<std::string, option_value, std::less<>> more = {}) {
  more["outputs"] = outputs;
  more["kernel"] = kernel;
  return {std::move(more)};
}

}  // namespace troupe
