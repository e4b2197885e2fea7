// matmul: y = scale op(a) op(b), for the matrices of the last two axes of its inputs. The axes in
// front are equal and count the products.
//   shapes    a [N, ..., M, K], b [N, ..., K, P] -> [N, ..., M, P]; with transpose_a a is [N, ...,
//             K, M], with transpose_b b is [N, ..., P, K]
//   gradient  dop(a) = scale dy op(b)^T, dop(b) = scale op(a)^T dy
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct matmul final : layer {
  bool transpose_a, transpose_b;
  double factor;
  explicit matmul(const options& o)
      : transpose_a(o.flag("transpose_a")), transpose_b(o.flag("transpose_b")), factor(o.real("scale")) {}

  // y [m, n] = op(a) [m, k] op(b) [k, n], `count` times.
  struct extents {
    std::int64_t count, m, k, n;
  };
  extents of(const shape& a, const shape& b) const {
    const int row = a.rank() - 2, column = a.rank() - 1;
    return {a.count() / (a[row] * a[column]), a[transpose_a ? column : row], a[transpose_a ? row : column],
            b[transpose_b ? row : column]};
  }

  shapes infer(const shapes& in) const override {
    const std::string a = transpose_a ? "[N, ..., K, M]" : "[N, ..., M, K]", b = transpose_b ? "[N, ..., P, K]" : "[N, ..., K, P]";
    const std::string what = "inputs " + a + " and " + b + " with equal axes in front and equal K";
    want(in.size() == 2 && in[0].rank() >= 3 && in[1].rank() == in[0].rank(), what, in);
    const int row = in[0].rank() - 2, column = in[0].rank() - 1;
    bool fits = in[0][transpose_a ? row : column] == in[1][transpose_b ? column : row];
    for (int i = 0; i < row; ++i) fits = fits && in[0][i] == in[1][i];
    want(fits, what, in);
    const auto e = of(in[0], in[1]);
    shape out = in[0];
    out.set(row, e.m), out.set(column, e.n);
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 2);
  }
  double flops(const shapes& in) const override {
    const auto e = of(in[0], in[1]);
    return 2.0 * static_cast<double>(in[0].count()) * static_cast<double>(e.n);
  }

  // c = factor op(a) op(b), for each product.
  void products(device& d, const extents& e, gemm_spec s, const tensor& a, const tensor& b, tensor& c) const {
    s.alpha = factor;
    for (std::int64_t i = 0; i < e.count; ++i) {
      const auto matrix = [&](const tensor& t) { return t.slice(i * (t.count() / e.count), shape{t.count() / e.count}); };
      tensor to = matrix(c);
      d.gemm(s, matrix(a), matrix(b), to);
    }
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const auto e = of(in[0].dims(), in[1].dims());
    products(c.dev, e, {.transpose_a = transpose_a, .transpose_b = transpose_b, .m = e.m, .n = e.n, .k = e.k}, in[0], in[1],
             backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    const tensor &a = s.inputs[0], &b = s.inputs[1], &dy = grad_out[0];
    const auto e = of(a.dims(), b.dims());
    if (wanted(grad_in, 0)) {
      tensor& da = backed(c.dev, grad_in[0]);
      if (transpose_a)  // da = op(b) dy^T
        products(c.dev, e, {.transpose_a = transpose_b, .transpose_b = true, .m = e.k, .n = e.m, .k = e.n}, b, dy, da);
      else
        products(c.dev, e, {.transpose_b = !transpose_b, .m = e.m, .n = e.k, .k = e.n}, dy, b, da);
    }
    if (wanted(grad_in, 1)) {
      tensor& db = backed(c.dev, grad_in[1]);
      if (transpose_b)  // db = dy^T op(a)
        products(c.dev, e, {.transpose_a = true, .transpose_b = transpose_a, .m = e.n, .n = e.k, .k = e.m}, dy, a, db);
      else
        products(c.dev, e, {.transpose_a = !transpose_a, .m = e.k, .n = e.n, .k = e.m}, a, dy, db);
    }
  }
};

}  // namespace

layer_type matmul_layer() {
  const auto with = [](bool a, bool b, double factor = 1.0) {
    return options{{{"transpose_a", a}, {"transpose_b", b}, {"scale", factor}}};
  };
  return {
      .name = "matmul",
      .doc =
          "y = scale a b, the products of the matrices in the last two axes: [N, ..., M, K] and [N, ..., K, P] -> [N, ..., M, P]. "
          "The axes in front are equal. da = scale dy b^T, db = scale a^T dy.",
      .specs = {flag_option("transpose_a", false, "the first input is [N, ..., K, M]"),
                flag_option("transpose_b", false, "the second input is [N, ..., P, K]"),
                real_option("scale", 1.0, "factor on the products; 1 / sqrt(K) for scores of attention")},
      .make = [](const options& o) { return std::make_unique<matmul>(o); },
      .cases = {example("matrices", with(false, false), {{2, 3, 4}, {2, 4, 5}}),
                example("scores", with(false, true, 0.5), {{2, 3, 5, 4}, {2, 3, 6, 4}}),
                example("first transposed", with(true, false), {{2, 4, 3}, {2, 4, 5}}),
                example("both transposed", with(true, true, -1.5), {{3, 4, 2}, {3, 5, 4}}),
                example("one value", with(false, false), {{1, 1, 1}, {1, 1, 1}}),
                example("wide", with(false, true), {{2, 19, 33}, {2, 17, 33}}),
                example("five axes", with(false, false), {{2, 1, 3, 2, 4}, {2, 1, 3, 4, 3}})},
      .min_inputs = 2,
      .max_inputs = 2};
}

}  // namespace troupe
