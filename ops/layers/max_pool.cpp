// max_pool: y = max of x over each window; padding is never the maximum.
//   shapes    [N, C, H, W] -> [N, C, OH, OW], OH = (H + 2 pad - kernel) / stride + 1, rounded up
//             unless rounding = "floor"; [N, C, L] -> [N, C, OL]
//   gradient  dx = dy at the maximum, whose index forward saves; the first in row order wins a tie
// Krizhevsky et al. 2012, section 3.4; Caffe's pooling layer.
#include "ops/layers/pooling.hpp"

namespace troupe {

namespace {

struct max_pool final : pooling {
  using pooling::pooling;
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.inputs = false, .outputs = false, .saved_bytes = infer(in)[0].count() * 4};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    s.extra = {tensor::allocate(c.dev, out[0].dims(), dtype::i32)};
    c.dev.max_pool(geometry(in[0].dims()), in[0], backed(c.dev, out[0]), s.extra[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    c.dev.max_pool_backward(geometry(grad_in[0].dims()), grad_out[0], s.extra[0], backed(c.dev, grad_in[0]));
  }
};

}  // namespace

std::shared_ptr<const pooling> as_max_pool(const layer& l) {
  const auto* p = dynamic_cast<const max_pool*>(&l);
  return p ? std::make_shared<max_pool>(*p) : nullptr;
}

layer_type max_pool_layer() {
  return {
      .name = "max_pool",
      .doc =
          "y = max of x over each window. [N, C, H, W] -> [N, C, OH, OW], or [N, C, L] -> [N, C, OL], OH = (H + 2 pad - kernel) / "
          "stride + 1, rounded up and "
          "clipped as in Caffe, or rounded down with rounding = \"floor\". The gradient goes to the first maximum in row order.",
      .specs = pooling_options(),
      .make = [](const options& o) { return std::make_unique<max_pool>(o); },
      .cases = pooling_cases()};
}

}  // namespace troupe
