// linear: y = x w^T + bias, with the axes of x from `axis` on flattened (Caffe's InnerProduct).
//   shapes    x [N, ...] of D elements per row -> y [N, outputs]; with axis 2: x [N, T, ...] ->
//             y [N, T, outputs], with the same w for each T; w [outputs, D], bias [outputs]
//   gradient  dx = dy w, dw = dy^T x, dbias = sum of dy over the rows
#include "ops/layers/activation.hpp"
#include "ops/packet_sum.hpp"

namespace troupe {

namespace {

struct linear final : layer, gathered_maths {
  std::int64_t outputs;
  int axis;
  bool bias;
  filler_spec weight_filler, bias_filler;
  // An absorbed activation.
  bool maps = false;
  unary f = unary::relu;
  double parameter = 0.0;

  explicit linear(const options& o)
      : outputs(o.integer("outputs")),
        axis(static_cast<int>(o.integer("axis"))),
        bias(o.flag("bias")),
        weight_filler(filler_from(o.table("weight_filler"), "xavier")),
        bias_filler(filler_from(o.table("bias_filler"), "constant")) {}

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= axis,
         axis == 1 ? "one input [N, ...]" : "one input with at least axis = " + std::to_string(axis) + " axes", in);
    shape out;
    for (int i = 0; i < axis; ++i) out.push_back(in[0][i]);
    out.push_back(outputs);
    return {out};
  }
  std::int64_t rows_of(const shape& x) const { return x.count() / x.count_from(axis); }
  signatures supported() const override {
    using enum distribution;
    signatures s = alike({split_0, broadcast}, 1, bias ? 2 : 1);
    if (axis > 1) return s;  // axis 1 is not the axis of the outputs
    s.push_back({{broadcast}, bias ? std::vector{split_0, split_0} : std::vector{split_0}, {split_1}});
    s.push_back({{split_1}, bias ? std::vector{split_1, broadcast} : std::vector{split_1}, {partial}});
    return s;
  }
  std::shared_ptr<const layer> part(std::int64_t begin, std::int64_t end, std::int64_t) const override {
    auto p = std::make_shared<linear>(*this);
    p->outputs = end - begin;
    return p;
  }
  std::shared_ptr<const layer> addend(std::int64_t, std::int64_t, std::int64_t, bool first) const override {
    auto p = std::make_shared<linear>(*this);
    p->bias = bias && first;
    return p;
  }
  param_specs params(const shapes& in) const override {
    param_specs p(1);
    p[0] = {.name = "weight", .dims = shape{outputs, in[0].count_from(axis)}, .filler = weight_filler};
    if (bias) p.push_back({.name = "bias", .dims = shape{outputs}, .filler = bias_filler});
    return p;
  }
  double flops(const shapes& in) const override { return 2.0 * static_cast<double>(in[0].count()) * static_cast<double>(outputs); }

  std::shared_ptr<const layer> absorb(const layer& next, const shapes&) const override {
    const auto* a = dynamic_cast<const activation*>(&next);
    if (!a || maps || device::needs_input(a->function())) return nullptr;
    auto both = std::make_shared<linear>(*this);
    both->maps = true, both->f = a->function(), both->parameter = a->parameter();
    return both;
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = true, .outputs = maps};
  }

  const gathered_maths* gathered() const override { return this; }
  void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    forward_all(c, 1, p, in, params, out, s);
  }
  void forward_all(context& c, std::int64_t packets, plan&, const tensors& in, const tensors& params, tensors& out,
                   saved&) const override {
    const std::int64_t rows = rows_of(in[0].dims()), width = in[0].dims().count_from(axis);
    tensor& y = backed(c.dev, out[0]);
    const bool apart = bias && y.type() == dtype::bf16;  // so that y is rounded once, with the bias
    tensor sums = apart ? tensor::allocate(c.dev, y.dims(), dtype::f32) : y;
    c.dev.gemm_stacked({.transpose_b = true, .m = rows / packets, .n = outputs, .k = width}, packets, in[0], params[0], sums);
    if (bias) c.dev.add_bias(rows, outputs, 1, params[1], sums);
    if (apart) c.dev.copy(sums, y);
    if (maps) c.dev.map(f, parameter, out[0], out[0]);
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    gradients(c, 1, s, params, grad_out, grad_in, grad_params, accumulate);
  }
  void backward_all(context& c, std::int64_t packets, plan&, const saved& s, const tensors& params, const tensors& grad_out,
                    tensors& grad_in, tensors& grad_params) const override {
    gradients(c, packets, s, params, grad_out, grad_in, grad_params, false);
  }

  void gradients(context& c, std::int64_t packets, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                 tensors& grad_params, bool accumulate) const {
    const tensor& x = s.inputs[0];
    const std::int64_t rows = rows_of(x.dims()) / packets, width = x.dims().count_from(axis);
    tensor dy = grad_out[0];
    if (maps) {
      dy = tensor::allocate(c.dev, dy.dims(), dy.type());
      c.dev.map_backward(f, parameter, {}, s.outputs[0], grad_out[0], dy);
    }
    if (wanted(grad_in, 0))
      c.dev.gemm_stacked({.m = rows, .n = width, .k = outputs}, packets, dy, params[0], backed(c.dev, grad_in[0]));
    assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& dw) {
      c.dev.gemm_summed({.transpose_a = true, .m = outputs, .n = width, .k = rows}, packets, dy, x, dw);
    });
    if (!bias) return;
    assign_or_add(c.dev, grad_params[1], accumulate, [&](tensor& db) {
      sum_over_packets(c.dev, packets, db, [&](std::int64_t p, tensor& sum) {
        c.dev.reduce_sum(rows, outputs, 1, dy.slice(p * rows * outputs, {rows, outputs}), sum);
      });
    });
  }
};

}  // namespace

layer_type linear_layer() {
  using i = std::int64_t;
  return {.name = "linear",
          .doc =
              "y = x w^T + bias. The axes from `axis` on are flattened: [N, ...] -> [N, outputs]; axis = 2: [N, T, ...] -> [N, T, "
              "outputs]. weight [outputs, D], bias [outputs].",
          .specs = {required_integer("outputs", "number of outputs"), flag_option("bias", true, "add a bias to each output"),
                    bounded(integer_option("axis", 1, "first axis that is flattened; the axes before it are kept"), 1,
                            shape::max_rank - 1),
                    table_option("weight_filler", "filler of the weights; default xavier"),
                    table_option("bias_filler", "filler of the bias; default zero")},
          .make = [](const options& o) { return std::make_unique<linear>(o); },
          .cases = {example("matrix", {{{"outputs", i{5}}}}, {{4, 7}}), example("image", {{{"outputs", i{3}}}}, {{2, 2, 3, 4}}),
                    example("no bias", {{{"outputs", i{4}}, {"bias", false}}}, {{3, 6}}),
                    example("one example", {{{"outputs", i{2}}}}, {{1, 9}}),
                    example("one input, one output", {{{"outputs", i{1}}}}, {{3, 1}}),
                    example("wide", {{{"outputs", i{33}}}}, {{5, 40}}),
                    example("wider than the batch is long", {{{"outputs", i{64}}}}, {{17, 256}}),
                    example("each step of a sequence", {{{"outputs", i{3}}, {"axis", i{2}}}}, {{2, 4, 5}}),
                    example("two axes kept, two flattened", {{{"outputs", i{3}}, {"axis", i{2}}}}, {{2, 3, 2, 2}})}};
}

}  // namespace troupe
