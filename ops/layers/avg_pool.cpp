// avg_pool: y = mean of x over each window, with zeros in the padding. The divisor counts padding
// (but nothing beyond it), as in Caffe and PyTorch, unless count_padding = false.
//   shapes    [N, C, H, W] -> [N, C, OH, OW], as max_pool
//   gradient  dx = sum of dy / divisor over the windows that contain the pixel
//   LeCun et al. 1998 (without its weights); Caffe's pooling layer.
#include "ops/layers/pooling.hpp"

namespace troupe {

namespace {

struct avg_pool final : pooling {
  using pooling::pooling;
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.avg_pool(geometry(in[0].dims()), in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (wanted(grad_in, 0)) c.dev.avg_pool_backward(geometry(grad_in[0].dims()), grad_out[0], backed(c.dev, grad_in[0]));
  }
};

std::vector<layer_case> avg_pool_cases() {
  auto all = pooling_cases();
  using i = std::int64_t;
  all.push_back(example("padding not counted",
                        options{{{"kernel", i{3}}, {"stride", i{2}}, {"pad", i{1}}, {"count_padding", false}}}, {{2, 1, 6, 5}}));
  const auto by_axis = [](i h, i w) { return std::vector<i>{h, w}; };
  all.push_back(
      example("padding by axis, not counted",
              options{{{"kernel", by_axis(3, 4)}, {"stride", by_axis(1, 3)}, {"pad", by_axis(1, 2)}, {"count_padding", false}}},
              {{2, 1, 4, 9}}));
  return all;
}

option_specs specs() {
  auto all = pooling_options();
  all.push_back(flag_option("count_padding", true, "count padding in the divisor"));
  return all;
}

}  // namespace

layer_type avg_pool_layer() {
  return {.name = "avg_pool",
          .doc =
              "y = mean of x over each window. [N, C, H, W] -> [N, C, OH, OW], or [N, C, L] -> [N, C, OL], OH = (H + 2 pad - "
              "kernel) / stride + 1, rounded up and "
              "clipped as in Caffe, or rounded down with rounding = \"floor\". The divisor counts padding unless count_padding = "
              "false.",
          .specs = specs(),
          .make = [](const options& o) { return std::make_unique<avg_pool>(o); },
          .cases = avg_pool_cases()};
}

}  // namespace troupe
