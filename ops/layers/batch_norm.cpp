// batch_norm: y = w xhat + b, xhat = (x - mean) r, r = 1 / sqrt(var + epsilon), by channel (axis
// 1).
//   training  mean and biased variance over examples and pixels: of the packet, or with stats =
//             "batch" of all packets of the step, on any node (joint_maths). They are also the
//             statistics (the variance times M / (M - 1) for M elements). The shard folds them into
//             the running values, per packet or once per step (runtime/reduce/fold.hpp):
//             running = (1 - momentum) running + momentum statistic
//   testing   the running mean and variance
//   shapes    [N, C, ...] -> same; weight, bias (affine), and the buffers running_mean,
//             running_var: [C]
//   gradient  with g = dy w: dx = r (g - sum g / M - xhat sum(g xhat) / M), dw = sum of dy xhat,
//             db = sum of dy; w is the one that forward used
//   fused     with a following relu (absorb): y = max(0, ...), and the gradient passes where y > 0,
//             which backward recomputes from x
//   Ioffe and Szegedy 2015, algorithms 1 and 2. Means and variances of packets are combined as in
//   Chan, Golub and LeVeque 1979, eq. 1.5. Momentum, epsilon, variances and names as in PyTorch.
#include "ops/layers/activation.hpp"

namespace troupe {

namespace {

struct batch_norm final : layer, joint_maths {
  double epsilon, momentum;
  bool affine, whole_batch, rectified = false;  // a relu follows
  filler_spec ones, zeros;
  explicit batch_norm(const options& o)
      : epsilon(o.real("epsilon")),
        momentum(o.real("momentum")),
        affine(o.flag("affine")),
        whole_batch(o.text("stats") == "batch") {
    ones.values.values["value"] = 1.0;
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 2, "one input [N, C, ...]", in);
    return in;
  }
  // The variance of one value is 0: every output would be the bias, and the running variance
  // approaches 0.
  std::string untrainable(const shapes& in, std::int64_t packets) const override {
    const auto values = in[0].count() / in[0][1];
    if (values * (whole_batch ? packets : 1) > 1) return {};
    if (whole_batch) return "the batch has one value for each channel, of which the variance is 0: use a larger batch";
    return "a packet " + in[0].to_string() +
           " has one value for each channel, of which the variance is 0: use fewer packets, a "
           "larger batch" +
           (packets > 1 ? " or stats = \"batch\"" : "");
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1, affine ? 4 : 2);
  }
  param_specs params(const shapes& in) const override {
    const auto of = [&](const char* name, const filler_spec& f, bool trainable) {
      param_spec p;
      p.name = name, p.dims = shape{in[0][1]}, p.filler = f;
      p.trainable = trainable, p.momentum = momentum, p.once_a_step = whole_batch;
      return p;
    };
    param_specs p;
    if (affine) p = {of("weight", ones, true), of("bias", zeros, true)};
    p.push_back(of("running_mean", zeros, false));
    p.push_back(of("running_var", ones, false));
    return p;
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    return {.saved_bytes = 16 * in[0][1]};
  }
  const joint_maths* joint() const override { return whole_batch ? this : nullptr; }
  std::shared_ptr<const layer> absorb(const layer& next, const shapes&) const override {
    const auto* relu = dynamic_cast<const activation*>(&next);
    if (rectified || relu == nullptr || !relu->rectifies()) return nullptr;
    auto both = std::make_shared<batch_norm>(*this);
    both->rectified = true;
    return both;
  }

  // --- joint_maths: the measurement of forward is the packet's mean and variance, that of backward
  // the sums of dy and of dy xhat.
  shape measured(const shapes& in) const override { return {2, in[0][1]}; }

  tensor measure(context& c, const tensors& in) const override {
    const auto g = geometry(in[0].dims());
    tensor m = tensor::allocate(c.dev, measured({in[0].dims()}), wide_of(in[0].type()));
    tensor mean = row(m, 0), variance = row(m, 1);
    c.dev.moments(g.outer, g.mid, g.inner, in[0], mean, variance);
    return m;
  }
  void forward_with(context& c, const tensors& packets, const tensors& in, const tensors& params, tensors& out,
                    saved& s) const override {
    const tensor& x = in[0];
    const double share = 1.0 / static_cast<double>(packets.size());
    tensor mean = vector_like(c.dev, x), variance = vector_like(c.dev, x), away = vector_like(c.dev, x);
    c.dev.fill(0.0, mean);
    for (const auto& p : packets) c.dev.axpy(share, row(p, 0), mean);
    c.dev.fill(0.0, variance);
    for (const auto& p : packets) {
      c.dev.axpy(share, row(p, 1), variance);
      if (packets.size() == 1) continue;
      c.dev.apply(binary::subtract, row(p, 0), mean, away);
      c.dev.map(unary::square, 0.0, away, away);
      c.dev.axpy(share, away, variance);
    }
    const auto g = geometry(x.dims());
    tensor table = tensor::allocate(c.dev, shape{4, g.mid}, wide_of(x.type()));
    c.dev.norm_table(g, mean, variance, weight(params), bias(params), table);
    c.dev.norm_apply(g, x, table, backed(c.dev, out[0]));
    s.extra = {table};
    leave_statistics(c, g, static_cast<double>(packets.size()), mean, variance);
  }
  tensor measure_back(context& c, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_params) const override {
    tensor sums = sums_like(c.dev, s.inputs[0]);
    c.dev.norm_sums(geometry(s.inputs[0].dims()), s.inputs[0], s.extra[0], grad_out[0], sums);
    give_gradients(c.dev, sums, grad_params, false);
    return sums;
  }
  void backward_with(context& c, const tensors& packets, const saved& s, const tensors&, const tensors& grad_out,
                     tensors& grad_in) const override {
    if (!wanted(grad_in, 0)) return;
    tensor sums = sums_like(c.dev, s.inputs[0]);
    c.dev.copy(packets[0], sums);
    for (std::size_t p = 1; p < packets.size(); ++p) c.dev.axpy(1.0, packets[p], sums);
    const auto g = geometry(s.inputs[0].dims());
    const double count = static_cast<double>(g.outer * g.inner) * static_cast<double>(packets.size());
    c.dev.norm_slope(g, s.inputs[0], s.extra[0], sums, count, grad_out[0], backed(c.dev, grad_in[0]));
  }

  // --- single packet
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const tensor& x = in[0];
    const auto g = geometry(x.dims());
    tensor table = tensor::allocate(c.dev, shape{4, g.mid}, wide_of(x.type()));
    if (c.ph == phase::test) {
      const std::size_t buffers = affine ? 2 : 0;
      c.dev.norm_table(g, params[buffers], params[buffers + 1], weight(params), bias(params), table);
      return c.dev.norm_apply(g, x, table, backed(c.dev, out[0]));
    }
    tensor variance = vector_like(c.dev, x);
    c.dev.norm_forward(g, x, weight(params), bias(params), variance, table, backed(c.dev, out[0]));
    s.extra = {table};
    leave_statistics(c, g, 1.0, row(table, 0), variance);
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    const auto g = geometry(s.inputs[0].dims());
    tensor sums = sums_like(c.dev, s.inputs[0]);
    if (wanted(grad_in, 0))
      c.dev.norm_backward(g, s.inputs[0], s.extra[0], grad_out[0], sums, backed(c.dev, grad_in[0]));
    else
      c.dev.norm_sums(g, s.inputs[0], s.extra[0], grad_out[0], sums);
    (void)params;
    give_gradients(c.dev, sums, grad_params, accumulate);
  }

 private:
  norm_geometry geometry(const shape& x) const { return {x[0], x[1], x.count_from(2), epsilon, rectified}; }
  tensor weight(const tensors& params) const { return affine ? params[0] : tensor(); }
  tensor bias(const tensors& params) const { return affine ? params[1] : tensor(); }
  static tensor vector_like(device& d, const tensor& x) { return tensor::allocate(d, shape{x.dims()[1]}, wide_of(x.type())); }
  static tensor sums_like(device& d, const tensor& x) { return tensor::allocate(d, shape{2, x.dims()[1]}, wide_of(x.type())); }
  // Row k of a measurement or table.
  static tensor row(const tensor& m, std::int64_t k) { return m.slice(k * m.dims()[1], shape{m.dims()[1]}); }

  // Scales `variance` in place.
  static void leave_statistics(context& c, const norm_geometry& g, double packets, const tensor& mean, tensor& variance) {
    if (c.stats_out == nullptr) return;
    const double m = static_cast<double>(g.outer * g.inner) * packets;
    if (m > 1) c.dev.scale(m / (m - 1), variance);
    *c.stats_out = {mean, variance};
  }
  void give_gradients(device& d, const tensor& sums, tensors& grad_params, bool accumulate) const {
    if (!affine) return;
    assign_or_add(d, grad_params[0], accumulate, [&](tensor& dw) { d.copy(row(sums, 1), dw); });
    assign_or_add(d, grad_params[1], accumulate, [&](tensor& db) { d.copy(row(sums, 0), db); });
  }
};

}  // namespace

layer_type batch_norm_layer() {
  return {.name = "batch_norm",
          .doc =
              "y = weight (x - mean) / sqrt(var + epsilon) + bias by channel. Training uses mean and variance of the packet, or "
              "with stats = \"batch\" of all packets of the step, and folds them into running values (running = (1 - momentum) "
              "running + momentum new). Testing uses the running values. [N, C, ...] -> same; weight, bias, and the buffers "
              "running_mean, running_var: [C]. With g = dy weight: dx = r (g - mean of g - xhat mean of (g xhat)). Cannot be split "
              "by feature. Ioffe and Szegedy 2015.",
          .specs = {choice_option("stats", {"packet", "batch"},
                                  "set of examples for mean and variance in training: one packet, or the step's whole batch"),
                    real_option("epsilon", 1e-5, "added to the variance", 1e-30),
                    real_option("momentum", 0.1, "weight of new statistics in the running values", 0.0, 1.0),
                    flag_option("affine", true, "learn weight and bias")},
          .make = [](const options& o) { return std::make_unique<batch_norm>(o); },
          .cases = {example("image", {}, {{2, 3, 4, 5}}), example("rows", {}, {{6, 19}}),
                    example("not affine", options{{{"affine", false}}}, {{4, 3, 2, 2}}), example("one channel", {}, {{5, 1, 3, 3}}),
                    example("one example", {}, {{1, 2, 3, 7}}), example("two elements", options{{{"epsilon", 0.1}}}, {{2, 3}}),
                    example("long rows", {}, {{3, 2, 1, 37}}),
                    example("one packet is the batch", options{{{"stats", std::string("batch")}}}, {{3, 2, 4, 5}})}};
}

}  // namespace troupe
