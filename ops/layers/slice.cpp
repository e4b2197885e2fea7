// slice: splits the input along `axis` before each of `points`, or without points into `parts`
// equal pieces.
//   shapes    [..., A, ...] -> [..., points[0], ...], [..., points[1] - points[0], ...], ...
//   gradient  dx = the gradients concatenated
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct slice final : layer {
  int axis;
  std::vector<std::int64_t> points;
  std::int64_t parts;
  explicit slice(const options& o)
      : axis(static_cast<int>(o.integer("axis"))), points(o.get<std::vector<std::int64_t>>("points")), parts(o.integer("parts")) {}

  // Start of each piece, and the end of the axis.
  std::vector<std::int64_t> bounds(const shape& x) const {
    std::vector<std::int64_t> all{0};
    all.insert(all.end(), points.begin(), points.end());
    if (points.empty())
      for (std::int64_t i = 1; i < parts; ++i) all.push_back(x[axis] / parts * i);
    all.push_back(x[axis]);
    return all;
  }
  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() > axis, "one input with an axis " + std::to_string(axis), in);
    if (points.empty())
      want(in[0][axis] % parts == 0, "an axis that is divisible into " + std::to_string(parts) + " equal parts", in);
    want(points.size() < max_outputs, "fewer than " + std::to_string(max_outputs) + " points", in);
    const auto at = bounds(in[0]);
    shapes out;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      want(at[i] < at[i + 1], "ascending points inside the axis", in);
      out.push_back(in[0]);
      out.back().set(axis, at[i + 1] - at[i]);
    }
    return out;
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, 0, points.empty() ? static_cast<std::size_t>(parts) : points.size() + 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }

  template <class F>
  void each_piece(const shape& whole, F f) const {
    const auto at = bounds(whole);
    const std::int64_t inner = whole.count_from(axis + 1);
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      const std::int64_t length = (at[i + 1] - at[i]) * inner;
      f(i, device::block{.rows = whole.count() / whole.count_from(axis),
                         .length = length,
                         .from_offset = at[i] * inner,
                         .from_stride = whole.count_from(axis),
                         .to_offset = 0,
                         .to_stride = length});
    }
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    each_piece(in[0].dims(), [&](std::size_t i, const device::block& b) { c.dev.copy_block(b, in[0], backed(c.dev, out[i])); });
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    tensor& dx = backed(c.dev, grad_in[0]);
    each_piece(dx.dims(), [&](std::size_t i, const device::block& b) {
      c.dev.copy_block({b.rows, b.length, b.to_offset, b.to_stride, b.from_offset, b.from_stride}, grad_out[i], dx);
    });
  }
};

}  // namespace

layer_type slice_layer() {
  using i = std::int64_t;
  using list = std::vector<i>;
  return {
      .name = "slice",
      .doc = "Splits the input along `axis` before each of `points`, or into `parts` equal pieces.",
      .specs = {integer_option("axis", 1, "axis that is split", 1),
                bounded(option_of("points", option_kind::integers, list{},
                                  "first index of each piece after the first, in ascending order"),
                        1),
                bounded(integer_option("parts", 2, "number of equal pieces, if there are no points"), 1, max_outputs)},
      .make = [](const options& o) { return std::make_unique<slice>(o); },
      .cases = {example("halves", {}, {{2, 4, 3, 2}}), example("points", {{{"points", list{1, 3}}}}, {{2, 6}}),
                example("last axis", {{{"axis", i{2}}, {"points", list{2}}}}, {{2, 3, 5}}),
                example("one part", {{{"parts", i{1}}}}, {{3, 2}}), example("pieces of one", {{{"parts", i{3}}}}, {{1, 3, 1}})}};
}

}  // namespace troupe
