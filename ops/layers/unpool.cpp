// unpool: puts values back to where a max_pool of these options found its maxima in x; zeros
// elsewhere.
//   y[argmax of x over window o] = values[o]; windows with a common maximum add up
//   shapes    values [N, C, OH, OW], x [N, C, H, W] -> [N, C, H, W], where max_pool makes
//             [OH, OW] of [H, W]; or [N, C, OL] and [N, C, L] -> [N, C, L]
//   gradient  dvalues = dy at the maxima; x has none
// Badrinarayanan et al. 2015 (SegNet), section 3; Zeiler and Fergus 2014.
#include "ops/layers/pooling.hpp"

namespace troupe {

namespace {

struct unpool final : pooling {
  using pooling::pooling;
  shapes infer(const shapes& in) const override {
    want(in.size() == 2, "two inputs: values, and the input of the max_pool", in);
    const shape pooled = pooling::infer({in[1]})[0];
    want(in[0] == pooled, "values " + pooled.to_string() + ", as max_pool makes of the second input", in);
    return {in[1]};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 2);
  }
  bool differentiable(std::size_t input) const override { return input == 0; }
  holding holds(std::size_t, const shapes&) const override { return holding::values; }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.inputs = false, .outputs = false, .saved_bytes = in[0].count() * 4};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    const auto g = geometry(in[1].dims());
    tensor maxima = tensor::allocate(c.dev, in[0].dims(), in[1].type()), index = tensor::allocate(c.dev, in[0].dims(), dtype::i32);
    c.dev.max_pool(g, in[1], maxima, index);
    c.dev.max_pool_backward(g, in[0], index, backed(c.dev, out[0]));
    s.extra = {std::move(index)};
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    const auto g = geometry(grad_out[0].dims());
    const tensor& dx = backed(c.dev, grad_in[0]);
    const auto pixels = g.height * g.width, windows = g.out_h * g.out_w;
    for (std::int64_t p = 0; p < g.planes; ++p) {  // indices are those in a plane
      tensor part = dx.slice(p * windows, {windows, 1});
      c.dev.gather_rows(grad_out[0].slice(p * pixels, {pixels, 1}), s.extra[0].slice(p * windows, {windows}), part);
    }
  }
};

}  // namespace

layer_type unpool_layer() {
  using i = std::int64_t;
  const auto with = [](i kernel, i stride, i pad, const char* rounding) {
    return options{{{"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"rounding", std::string(rounding)}}};
  };
  return {.name = "unpool",
          .doc =
              "Puts values back to where max_pool with the same options finds its maxima in the second input, and zeros elsewhere. "
              "Inputs values [N, C, OH, OW] and x [N, C, H, W] -> [N, C, H, W]. Windows with a common maximum add up. "
              "dvalues = dy at the maxima; x has no gradient. Badrinarayanan et al. 2015 (SegNet).",
          .specs = pooling_options(),
          .make = [](const options& o) { return std::make_unique<unpool>(o); },
          .cases = {example("2 by 2", with(2, 2, 0, "ceil"), {{2, 3, 3, 4}, {2, 3, 6, 8}}),
                    example("clipped at the border", with(2, 2, 0, "ceil"), {{2, 2, 3, 4}, {2, 2, 5, 7}}),
                    example("rounded down", with(2, 2, 0, "floor"), {{2, 2, 2, 3}, {2, 2, 5, 7}}),
                    example("overlapping, padded", with(3, 1, 1, "ceil"), {{1, 2, 5, 4}, {1, 2, 5, 4}}),
                    example("stride beyond the kernel", with(2, 3, 0, "ceil"), {{1, 2, 3, 3}, {1, 2, 8, 7}}),
                    example("whole image", {}, {{2, 3, 1, 1}, {2, 3, 4, 5}}),
                    example("a series", with(2, 2, 0, "ceil"), {{2, 3, 5}, {2, 3, 10}}),
                    example("one pixel", with(1, 1, 0, "ceil"), {{3, 2, 1, 1}, {3, 2, 1, 1}})},
          .min_inputs = 2,
          .max_inputs = 2};
}

}  // namespace troupe
