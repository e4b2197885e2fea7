// concat: concatenates the inputs along `axis`.  dx[i] = the part of dy that belongs to input i.
//   shapes  equal except along `axis` -> the sum of the extents there. Not along the example axis.
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct concat final : layer {
  int axis;
  explicit concat(const options& o) : axis(static_cast<int>(o.integer("axis"))) {}

  shapes infer(const shapes& in) const override {
    want(!in.empty() && in[0].rank() > axis, "inputs with an axis " + std::to_string(axis), in);
    shape out = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) {
      want(in[i].rank() > axis, "inputs with an axis " + std::to_string(axis), in);
      out.set(axis, out[axis] + in[i][axis]);
      shape same = in[i];
      same.set(axis, in[0][axis]);
      want(same == in[0], "inputs that differ along axis " + std::to_string(axis) + " only", in);
    }
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 2);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }

  // Calls f(i, block) for each input i: `block` copies its part of the joined tensor to the input.
  template <class F>
  void each_part(const shape& joined, const tensors& parts, F f) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t length = parts[i].dims().count_from(axis);
      f(i, device::block{.rows = joined.count() / joined.count_from(axis),
                         .length = length,
                         .from_offset = offset,
                         .from_stride = joined.count_from(axis),
                         .to_offset = 0,
                         .to_stride = length});
      offset += length;
    }
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved& s) const override {
    out[0].back(c.dev);
    s.extra.clear();
    for (const auto& x : in) s.extra.push_back(tensor::declare(x.dims(), x.type()));  // shapes only: backward needs no values
    each_part(out[0].dims(), in, [&](std::size_t i, const device::block& b) {
      c.dev.copy_block({b.rows, b.length, b.to_offset, b.to_stride, b.from_offset, b.from_stride}, in[i], out[0]);
    });
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    each_part(grad_out[0].dims(), s.extra, [&](std::size_t i, const device::block& b) {
      if (wanted(grad_in, i)) c.dev.copy_block(b, grad_out[0], backed(c.dev, grad_in[i]));
    });
  }
};

}  // namespace

layer_type concat_layer() {
  using i = std::int64_t;
  return {.name = "concat",
          .doc = "Concatenates the inputs along `axis` (not the example axis).",
          .specs = {integer_option("axis", 1, "axis along which the inputs are concatenated", 1)},
          .make = [](const options& o) { return std::make_unique<concat>(o); },
          .cases = {example("channels", {}, {{2, 3, 2, 2}, {2, 1, 2, 2}}), example("one input", {}, {{3, 4}}),
                    example("three", {}, {{2, 2}, {2, 5}, {2, 1}}),
                    example("last axis", {{{"axis", i{2}}}}, {{2, 3, 4}, {2, 3, 1}}), example("one example", {}, {{1, 1}, {1, 1}})},
          .min_inputs = 1,
          .max_inputs = 64};
}

}  // namespace troupe
