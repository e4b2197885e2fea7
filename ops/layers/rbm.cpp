// rbm: a restricted Boltzmann machine, trained by contrastive divergence, CD-k.
//   energy    E(v, h) = -b.v - c.h - h.(W v) for binary h; with hidden = "gaussian" (unit
//             variance), |h - c|^2 / 2 replaces -c.h
//   free      F(v) = -b.v - sum log(1 + exp(a)) for binary h, -b.v - sum a^2 / 2 up to a constant
//             for gaussian h, a = c + W v
//   outputs   0: the loss, mean of F(v0) - F(vk) over the packet
//             1: p(h | v0), or a for gaussian h [N, units]
//             2: p(v | h) of the last step, the reconstruction, in the shape of the input
//   vk        from v0 by k steps of Gibbs sampling: h ~ p(h | v), v = p(v | h), or with visible =
//             "sample" v ~ p(v | h). Testing draws no numbers: h = p(h | v)
//   gradient  with all drawn numbers and vk held constant. The gradient of the loss is contrastive
//             divergence: dW = (<h v> of vk - <h v> of v0) / N, dc = (<h> of vk - <h> of v0) / N,
//             db = (sum vk - sum v0) / N
//   shapes    v [N, ...] of V elements in [0, 1]; weight [units, V], bias c [units], visible_bias b
//             [V]
// Random numbers depend on (seed, layer, step, example index), not on packets and workers. Hinton
// 2002, eqs. 5 and 9; Hinton 2010, "A Practical Guide", sections 3 and 13.2 (gaussian units).
#include "ops/layer_support.hpp"

namespace troupe {

namespace {

struct rbm final : layer {
  std::int64_t units, steps;
  bool gaussian, sampled;
  filler_spec weight_filler, bias_filler, visible_filler;

  explicit rbm(const options& o)
      : units(o.integer("units")),
        steps(o.integer("steps")),
        gaussian(o.text("hidden") == "gaussian"),
        sampled(o.text("visible") == "sample"),
        weight_filler(filler_from(o.table("weight_filler"), "gaussian")),
        bias_filler(filler_from(o.table("bias_filler"), "constant")),
        visible_filler(filler_from(o.table("visible_bias_filler"), "constant")) {
    if (o.table("weight_filler").values.empty()) weight_filler.values.values["std"] = 0.01;
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 2, "one input [N, ...]", in);
    return {shape{}, shape{in[0][0], units}, in[0]};
  }
  signatures supported() const override {
    using enum distribution;
    return {{{split_0}, {broadcast, broadcast, broadcast}, {partial, split_0, split_0}},
            {{broadcast}, {broadcast, broadcast, broadcast}, {broadcast, broadcast, broadcast}}};
  }
  param_specs params(const shapes& in) const override {
    const auto visible = in[0].count_from(1);
    return {{.name = "weight", .dims = shape{units, visible}, .filler = weight_filler},
            {.name = "bias", .dims = shape{units}, .filler = bias_filler, .decay_multiplier = 0.0},
            {.name = "visible_bias", .dims = shape{visible}, .filler = visible_filler, .decay_multiplier = 0.0}};
  }
  bool is_loss() const override { return true; }
  bool takes_absent_gradients() const override { return true; }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.outputs = true, .saved_bytes = 4 * (2 * in[0][0] * units + in[0].count())};
  }
  double flops(const shapes& in) const override {
    return 2.0 * static_cast<double>(in[0].count()) * static_cast<double>(units) * static_cast<double>(1 + 2 * steps);
  }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const extents e(*this, in[0].dims());
    const tensor v0 = in[0].reshaped(e.visible);
    const tensor a0 = activations(c.dev, e, v0, params);
    out[1] = hidden(c.dev, a0, v0.type());
    tensor h = out[1], a = a0, v, drawn;
    for (std::int64_t k = 0; k < steps; ++k) {
      drawn = drawn_from(c, gaussian ? draw::gaussian : draw::bernoulli, 2 * k, h);
      const tensor p = reconstructed(c.dev, e, drawn, params);
      if (k + 1 == steps) out[2] = p.reshaped(in[0].dims());
      v = sampled ? drawn_from(c, draw::bernoulli, 2 * k + 1, p) : p;
      a = activations(c.dev, e, v, params);
      h = hidden(c.dev, a, v0.type());
    }
    s.extra = {drawn, v, h};
    tensor& loss = backed(c.dev, out[0]);
    const auto type = wide_of(v.type());
    tensor change = tensor::allocate(c.dev, params[2].dims(), type), term = tensor::allocate(c.dev, shape{}, type);
    sum_of_change(c.dev, e, v, v0, change);
    c.dev.reduce_product(1, 1, e.visible[1], change, params[2], loss);
    c.dev.scale(1.0 / static_cast<double>(e.examples), loss);
    hidden_term(c.dev, a, term);
    c.dev.axpy(1.0, term, loss);
    hidden_term(c.dev, a0, term);
    c.dev.axpy(-1.0, term, loss);
  }

  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    device& d = c.dev;
    const extents e(*this, s.inputs[0].dims());
    const tensor v0 = s.inputs[0].reshaped(e.visible), &h0 = s.outputs[1];
    const tensor &drawn = s.extra[0], &v = s.extra[1], &h = s.extra[2];
    const auto n = static_cast<double>(e.examples);
    const tensor up = times(d, grad_out[0], 1.0 / n), down = times(d, grad_out[0], -1.0 / n);
    // Gradients of the activations: those of v0, of vk, and of the reconstruction, which is not
    // used with contrastive divergence.
    const tensor da0 = gradient_of_a0(d, h0, down, grad_out[1]), da = by_scalar(d, h, up);
    tensor dp;
    if (grad_out[2]) {
      dp = tensor::allocate(d, e.visible, v.type());
      d.map_backward(unary::sigmoid, 0.0, {}, s.outputs[2].reshaped(e.visible), grad_out[2].reshaped(e.visible), dp);
    }
    assign_or_add(d, grad_params[0], accumulate, [&](tensor& dw) {
      const gemm_spec outer{.transpose_a = true, .m = units, .n = e.visible[1], .k = e.examples};
      auto more = outer;
      more.beta = 1.0;
      d.gemm(outer, da0, v0, dw);
      d.gemm(more, da, v, dw);
      if (dp) d.gemm(more, drawn, dp, dw);
    });
    assign_or_add(d, grad_params[1], accumulate, [&](tensor& dc) {
      d.reduce_sum(e.examples, units, 1, da0, dc);
      d.axpy(1.0, summed(d, e.examples, units, da), dc);
    });
    assign_or_add(d, grad_params[2], accumulate, [&](tensor& db) {
      tensor change = tensor::allocate(d, params[2].dims(), wide_of(v.type()));
      sum_of_change(d, e, v, v0, change);
      d.blend(1, 1, e.visible[1], change, up, {}, {}, {}, db);
      if (dp) d.axpy(1.0, summed(d, e.examples, e.visible[1], dp), db);
    });
    if (!wanted(grad_in, 0)) return;
    tensor dv = backed(d, grad_in[0]).reshaped(e.visible);
    d.gemm({.m = e.examples, .n = e.visible[1], .k = units}, da0, params[0], dv);
    d.add_bias(e.examples, e.visible[1], 1, by_scalar(d, params[2], down), dv);
  }

 private:
  struct extents {
    std::int64_t examples;
    shape visible, hidden;
    extents(const rbm& r, const shape& in) : examples(in[0]), visible{in[0], in.count_from(1)}, hidden{in[0], r.units} {}
  };

  // a = c + W v, in the wide type.
  tensor activations(device& d, const extents& e, const tensor& v, const tensors& params) const {
    tensor a = tensor::allocate(d, e.hidden, wide_of(v.type()));
    d.gemm({.transpose_b = true, .m = e.examples, .n = units, .k = e.visible[1]}, v, params[0], a);
    d.add_bias(e.examples, units, 1, params[1], a);
    return a;
  }
  tensor hidden(device& d, const tensor& a, dtype type) const {
    if (gaussian && a.type() == type) return a;
    tensor h = tensor::allocate(d, a.dims(), type);
    gaussian ? d.copy(a, h) : d.map(unary::sigmoid, 0.0, a, h);
    return h;
  }
  tensor reconstructed(device& d, const extents& e, const tensor& h, const tensors& params) const {
    tensor a = tensor::allocate(d, e.visible, wide_of(h.type()));
    d.gemm({.m = e.examples, .n = e.visible[1], .k = units}, h, params[0], a);
    d.add_bias(e.examples, e.visible[1], 1, params[2], a);
    tensor p = a.type() == h.type() ? a : tensor::allocate(d, e.visible, h.type());
    d.map(unary::sigmoid, 0.0, a, p);
    return p;
  }
  // Each half step k of the chain has its own stream, distinct from those of other layers (fewer
  // than 2^20) and of fillers.
  tensor drawn_from(context& c, draw kind, std::int64_t k, const tensor& x) const {
    if (c.ph == phase::test) return x;
    tensor y = tensor::allocate(c.dev, x.dims(), x.type());
    const auto half = static_cast<std::uint32_t>(k + 1) << 20U;
    c.dev.sample(kind, {.key = c.seed, .a = static_cast<std::uint32_t>(c.step), .b = c.layer + half}, c.first_example, x, y);
    return y;
  }
  // The term of h in -F, a mean over the packet.
  void hidden_term(device& d, const tensor& a, tensor& term) const {
    tensor none = tensor::allocate(d, a.dims(), a.type()), slope = tensor::allocate(d, a.dims(), a.type());
    d.fill(0.0, none);
    d.pointwise_loss(gaussian ? pointwise::squared : pointwise::sigmoid, a, none, slope, term);
  }
  tensor gradient_of_a0(device& d, const tensor& h0, const tensor& down, const tensor& grad_hidden) const {
    tensor da = by_scalar(d, h0, down);
    if (!grad_hidden) return da;
    if (gaussian) return d.axpy(1.0, grad_hidden, da), da;
    tensor more = tensor::allocate(d, h0.dims(), h0.type());
    d.map_backward(unary::sigmoid, 0.0, {}, h0, grad_hidden, more);
    d.axpy(1.0, more, da);
    return da;
  }

  static tensor summed(device& d, std::int64_t rows, std::int64_t columns, const tensor& x) {
    tensor sum = tensor::allocate(d, shape{columns}, wide_of(x.type()));
    d.reduce_sum(rows, columns, 1, x, sum);
    return sum;
  }
  static void sum_of_change(device& d, const extents& e, const tensor& v, const tensor& v0, tensor& change) {
    d.reduce_sum(e.examples, e.visible[1], 1, v, change);
    d.axpy(-1.0, summed(d, e.examples, e.visible[1], v0), change);
  }
  static tensor times(device& d, const tensor& x, double factor) {
    tensor y = tensor::allocate(d, shape{1}, x.type());
    d.copy(x, y);
    d.scale(factor, y);
    return y;
  }
  static tensor by_scalar(device& d, const tensor& x, const tensor& factor) {
    tensor y = tensor::allocate(d, x.dims(), x.type());
    d.blend(1, 1, x.count(), x, factor, {}, {}, {}, y);
    return y;
  }
};

}  // namespace

layer_type rbm_layer() {
  using i = std::int64_t;
  const auto units = [](i n, std::map<std::string, option_value, std::less<>> more = {}) {
    more.emplace("units", n);
    more.emplace("visible", std::string("sample"));  // a step function: central differences need constant draws
    return options{std::move(more)};
  };
  return {.name = "rbm",
          .doc =
              "A restricted Boltzmann machine, trained by contrastive divergence CD-k. v [N, ...] of V elements in [0, 1]; "
              "outputs: the loss, mean of F(v0) - F(vk), F(v) = -b.v - sum log(1 + exp(c + W v)); hidden probabilities [N, units]; "
              "the reconstruction, in the shape of v. weight W [units, V], bias c [units], visible_bias b [V]. Gradient with vk "
              "held constant: dW = (sum of h v at vk - at v0) / N. With algorithm = \"cd\" no gradient flows to the input, so each "
              "rbm of a stack is trained separately. Biases do not decay unless decay_scale is set. Hinton 2002.",
          .specs = {required_integer("units", "number of hidden units"),
                    bounded(integer_option("steps", 1, "k, the number of Gibbs sampling steps"), 1, 1000),
                    choice_option("hidden", {"binary", "gaussian"}, "hidden units: 0 or 1, or linear with unit variance"),
                    choice_option("visible", {"mean", "sample"},
                                  "values of visible units during sampling: their probabilities, or samples 0 and 1"),
                    table_option("weight_filler", "filler of the weights; default gaussian with std = 0.01"),
                    table_option("bias_filler", "filler of the hidden units' bias; default zero"),
                    table_option("visible_bias_filler", "filler of the visible units' bias; default zero")},
          .make = [](const options& o) { return std::make_unique<rbm>(o); },
          .cases = {example("rows", units(5), {{4, 7}}), example("image", units(3), {{2, 2, 3, 4}}),
                    example("three steps", units(6, {{"steps", i{3}}}), {{3, 5}}), example("one of each", units(1), {{1, 1}}),
                    example("wide", units(70), {{2, 90}})}};
}

}  // namespace troupe
