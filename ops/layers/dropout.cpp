// dropout: training: y = x mask / (1 - ratio), mask = 0 with probability ratio; testing: y = x. dx
// = dy mask / (1 - ratio).
//   shapes  [N, ...] -> same.
// The mask depends on (seed, layer, step, example index) and is drawn again in backward. It is the
// same for any number of packets and workers, and no tensor is saved.  Srivastava et al. 2014.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct dropout final : layer {
  double ratio;
  // For a part of a split layer: its position on axis 1 of the whole layer, whose mask it uses.
  std::int64_t first_feature = 0, features = 0;
  explicit dropout(const options& o) : ratio(o.real("ratio")) {
    if (ratio >= 1.0) throw option_error("ratio", "'ratio' must be less than 1");
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 1, "one input [N, ...]", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
  std::shared_ptr<const layer> part(std::int64_t begin, std::int64_t, std::int64_t all) const override {
    auto p = std::make_shared<dropout>(*this);
    p->first_feature = begin;
    p->features = all;
    return p;
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  bool in_place() const override { return true; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    mask(c, in[0], out[0]);
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (wanted(grad_in, 0)) mask(c, grad_out[0], grad_in[0]);
  }
  void mask(context& c, const tensor& x, tensor& y) const {
    if (c.ph == phase::test || ratio == 0.0) {
      y = x;
      return;
    }
    const rng_stream stream{.key = c.seed, .a = static_cast<std::uint32_t>(c.step), .b = c.layer};
    if (features == 0) return c.dev.dropout(stream, c.first_example, ratio, x, backed(c.dev, y));
    const auto inner = x.dims().count_from(2), here = x.dims()[1] * inner;
    shape dims = x.dims();
    dims.set(1, features);
    const auto type = wide_of(x.type());
    tensor ones = tensor::allocate(c.dev, dims, type), all = tensor::allocate(c.dev, dims, type);
    c.dev.fill(1.0, ones);
    c.dev.dropout(stream, c.first_example, ratio, ones, all);
    tensor mine = tensor::allocate(c.dev, x.dims(), type);
    c.dev.copy_block(
        {.rows = dims[0], .length = here, .from_offset = first_feature * inner, .from_stride = features * inner, .to_stride = here},
        all, mine);
    c.dev.apply(binary::multiply, x, mine, backed(c.dev, y));
  }
};

}  // namespace

layer_type dropout_layer() {
  return {.name = "dropout",
          .doc =
              "Training: y = x mask / (1 - ratio); testing: y = x. The mask is a function of seed, layer, step and example. "
              "Srivastava et al. 2014.",
          .specs = {real_option("ratio", 0.5, "probability that an element is dropped", 0.0, 1.0)},
          .make = [](const options& o) { return std::make_unique<dropout>(o); },
          .cases = {example("half", {}, {{4, 10}}), example("image", {{{"ratio", 0.3}}}, {{2, 3, 4, 5}}),
                    example("nothing dropped", {{{"ratio", 0.0}}}, {{3, 5}}),
                    example("more than one block", {{{"ratio", 0.9}}}, {{2, 150}}), example("one element", {}, {{1, 1}}),
                    example("a vector of examples", {}, {{9}})}};
}

}  // namespace troupe
