// softmax: y = exp(x) / sum over `axis` of exp(x).  dx = y (dy - sum over `axis` of y dy).
//   shapes  [N, C, ...] -> same.  Bridle 1990.
//   causal  the last two axes are square and the last is `axis`: row i sums columns 0 to i, and
//           y = 0 in the later ones (scores of steps with steps in attention; Vaswani et al. 2017,
//           section 3.2.3). Their gradient is 0, since y is.
// softmax_loss combines it with a loss. Can be split by feature if axis 1 is neither summed nor the
// rows of a causal matrix.
#include <limits>

#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct softmax final : layer {
  int axis;
  bool causal;
  explicit softmax(const options& o) : axis(static_cast<int>(o.integer("axis"))), causal(o.flag("causal")) {
    if (causal && axis < 2)
      throw option_error("causal", "'causal' requires axis >= 2, the columns of square matrices [N, ..., T, T]");
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() > axis,
         axis == 1 ? "one input [N, C, ...]" : "one input with an axis " + std::to_string(axis), in);
    want(!causal || (in[0].rank() == axis + 1 && in[0][axis - 1] == in[0][axis]),
         "square matrices [N, ..., T, T] whose columns are axis " + std::to_string(axis) + ", since 'causal' is set", in);
    return in;
  }
  signatures supported() const override {
    using enum distribution;
    return axis > (causal ? 2 : 1) ? alike({split_0, split_1, broadcast}, 1) : alike({split_0, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false, .outputs = true};
  }

  // 0 up to the diagonal and -infinity behind it, which is added to each matrix.
  struct mask final : plan {
    tensor values;
  };
  std::unique_ptr<plan> prepare(device& d, const shapes& in, phase ph, dtype t) const override {
    if (!causal) return layer::prepare(d, in, ph, t);
    const std::int64_t steps = in[0][axis];
    auto p = std::make_unique<mask>();
    p->values = tensor::allocate(d, shape{steps * steps}, wide_of(t));
    const auto fill = [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> v(static_cast<std::size_t>(steps * steps), zero);
      for (std::int64_t row = 0; row < steps; ++row)
        for (std::int64_t column = row + 1; column < steps; ++column)
          v[static_cast<std::size_t>(row * steps + column)] = -std::numeric_limits<T>::infinity();
      d.upload(v.data(), p->values);
    };
    wide_of(t) == dtype::f64 ? fill(0.0) : fill(0.0F);
    return p;
  }
  std::int64_t rows_of(const shape& x) const { return x.count() / x.count_from(axis); }
  void forward(context& c, plan& p, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const shape& x = in[0].dims();
    tensor scores = in[0];
    if (causal) {
      scores = tensor::allocate(c.dev, x, in[0].type());
      const std::int64_t square = x[axis] * x[axis];
      c.dev.blend(x.count() / square, square, 1, in[0], {}, {}, {}, static_cast<const mask&>(p).values, scores);
    }
    c.dev.softmax(rows_of(x), x[axis], x.count_from(axis + 1), scores, backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    const shape& x = grad_out[0].dims();
    if (wanted(grad_in, 0))
      c.dev.softmax_backward(rows_of(x), x[axis], x.count_from(axis + 1), s.outputs[0], grad_out[0], backed(c.dev, grad_in[0]));
  }
};

}  // namespace

layer_type softmax_layer() {
  using i = std::int64_t;
  const auto along = [](i axis, bool causal = false) { return options{{{"axis", axis}, {"causal", causal}}}; };
  return {
      .name = "softmax",
      .doc =
          "y = exp(x) / sum over `axis` of exp(x), dx = y (dy - sum of y dy). [N, C, ...] -> same. causal = true: row i of square "
          "matrices [N, ..., T, T] sums columns 0 to i, and later columns are 0, so that a step of attention sees no later "
          "one. Bridle 1990.",
      .specs = {integer_option("axis", 1, "axis of the sum", 1),
                flag_option("causal", false, "mask the columns behind the diagonal; `axis` must be the last")},
      .make = [](const options& o) { return std::make_unique<softmax>(o); },
      .cases = {example("rows", {}, {{4, 10}}), example("image", {}, {{2, 3, 4, 5}}), example("one class", {}, {{3, 1}}),
                example("many classes", {}, {{2, 37}}), example("more pixels than a strip", {}, {{2, 3, 7, 11}}),
                example("one example", {}, {{1, 2, 1}}), example("last axis", along(3), {{2, 3, 4, 5}}),
                example("middle axis", along(2), {{2, 3, 4, 5}}), example("causal", along(3, true), {{2, 3, 5, 5}}),
                example("causal, one step", along(2, true), {{3, 1, 1}}), example("causal, long", along(2, true), {{2, 19, 19}})}};
}

}  // namespace troupe
