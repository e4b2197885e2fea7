// crop: the box of x that starts at `offsets` on the axes from `axis` on. Its extents are `size`,
// or those of a second input.
//   shapes    [N, C, H, W] with size = [h, w] -> [N, C, h, w]; one offset for all axes, or one each
//   gradient  dx = dy inside the box, 0 elsewhere; the second input has none.  Caffe's crop layer.
#include <functional>

#include "ops/layer_support.hpp"

namespace troupe {

namespace {

// Copies a box out of a tensor or into it. For crop and pad.

// `box` has the rank of `whole` and starts at `at`; axis 0 is copied completely. Copies runs that
// are as long as possible. out = true: from `whole` to the box; false: from the box to `whole`,
// whose other elements are unchanged.
void copy_region(device& d, const shape& whole, const shape& box, const shape& at, bool out, const tensor& from, tensor& to) {
  int last = whole.rank() - 1;  // the last cropped axis; the axes after it are contiguous in both
  while (last > 1 && box[last] == whole[last]) --last;
  const std::function<void(int, std::int64_t, std::int64_t)> copy = [&](int axis, std::int64_t in_whole, std::int64_t in_box) {
    if (axis + 1 < last) {
      for (std::int64_t i = 0; i < box[axis]; ++i)
        copy(axis + 1, in_whole + (at[axis] + i) * whole.count_from(axis + 1), in_box + i * box.count_from(axis + 1));
      return;
    }
    // Rows along `axis`, each a run over the axes from `last` on.
    in_whole += at[axis] * whole.count_from(axis + 1) + at[last] * whole.count_from(last + 1);
    device::block b{.rows = box[axis],
                    .length = box.count_from(last),
                    .from_offset = in_whole,
                    .from_stride = whole.count_from(axis + 1),
                    .to_offset = in_box,
                    .to_stride = box.count_from(axis + 1)};
    if (!out) {
      std::swap(b.from_offset, b.to_offset);
      std::swap(b.from_stride, b.to_stride);
    }
    d.copy_block(b, from, to);
  };
  copy(0, 0, 0);
}

struct crop final : layer {
  int axis;
  std::vector<std::int64_t> size, offsets;
  explicit crop(const options& o)
      : axis(static_cast<int>(o.integer("axis"))),
        size(o.get<std::vector<std::int64_t>>("size")),
        offsets(o.get<std::vector<std::int64_t>>("offsets")) {}

  shape begin(const shape& x) const {
    shape at = x;
    for (int i = 0; i < x.rank(); ++i) {
      const auto k = static_cast<std::size_t>(i - axis);
      at.set(i, i < axis || offsets.empty() ? 0 : offsets.size() == 1 ? offsets[0] : offsets[k]);
    }
    return at;
  }
  shapes infer(const shapes& in) const override {
    const shape& x = in.at(0);
    want(x.rank() > axis, "an input with an axis " + std::to_string(axis), in);
    const auto axes = static_cast<std::size_t>(x.rank() - axis);
    want(in.size() == (size.empty() ? 2 : 1), size.empty() ? "option 'size' or a second input" : "one input, since 'size' is set",
         in);
    want(size.empty() ? in[1].rank() == x.rank() : size.size() == axes, "a size for each axis from " + std::to_string(axis), in);
    want(offsets.size() <= 1 || offsets.size() == axes, "one offset, or one for each axis from " + std::to_string(axis), in);
    const shape at = begin(x);
    shape out = x;
    for (int i = axis; i < x.rank(); ++i) {
      out.set(i, size.empty() ? in[1][i] : size[static_cast<std::size_t>(i - axis)]);
      want(out[i] <= x[i] && at[i] <= x[i] - out[i],  // the sum could overflow
           "a box inside the input: axis " + std::to_string(i) + " starts at " + std::to_string(at[i]) + " and has " +
               std::to_string(out[i]),
           in);
    }
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return axis > 1 && !size.empty() ? alike({split_0, split_1, broadcast}, 1) : alike({split_0, broadcast}, size.empty() ? 2 : 1);
  }
  bool differentiable(std::size_t input) const override { return input == 0; }
  holding holds(std::size_t input, const shapes&) const override { return input == 0 ? holding::values : holding::any; }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    copy_region(c.dev, x, out[0].dims(), begin(x), true, in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    tensor& dx = backed(c.dev, grad_in[0]);
    c.dev.fill(0.0, dx);
    copy_region(c.dev, dx.dims(), grad_out[0].dims(), begin(dx.dims()), false, grad_out[0], dx);
  }
};

}  // namespace

layer_type crop_layer() {
  using list = std::vector<std::int64_t>;
  const auto with = [](std::int64_t axis, list size, list offsets) {
    return options{{{"axis", axis}, {"size", size}, {"offsets", offsets}}};
  };
  return {
      .name = "crop",
      .doc =
          "The box of the input that starts at `offsets` on the axes from `axis` on, with the extents `size` or those of a second "
          "input. dx = dy inside the box, 0 elsewhere.",
      .specs = {integer_option("axis", 2, "first axis that is cropped", 1),
                bounded(option_of("size", option_kind::integers, list{}, "extents of the box; default: those of the second input"),
                        1),
                bounded(option_of("offsets", option_kind::integers, list{},
                                  "start of the box: one offset for all axes, or one each; default 0"),
                        0)},
      .make = [](const options& o) { return std::make_unique<crop>(o); },
      .cases = {example("image", with(2, {2, 3}, {1, 2}), {{2, 3, 4, 5}}),
                example("like another", with(2, {}, {1}), {{2, 2, 5, 4}, {2, 7, 3, 3}}),
                example("channels", with(1, {2, 3, 3}, {1, 0, 0}), {{2, 4, 3, 3}}),
                example("rows only", with(2, {2, 5}, {}), {{1, 2, 3, 5}}), example("vector", with(1, {3}, {2}), {{3, 6}}),
                example("all of it", with(2, {1, 1}, {}), {{2, 1, 1, 1}}),
                example("five axes", with(2, {1, 2, 2}, {1, 0, 1}), {{2, 2, 2, 3, 4}})},
      .min_inputs = 1,
      .max_inputs = 2};
}

}  // namespace troupe
