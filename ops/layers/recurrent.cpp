#include "ops/layers/recurrent.hpp"

#include <cmath>

#include "ops/converted.hpp"

namespace troupe {

namespace {

// Gates [begin, begin + count) of a step receive the products of h with rows [row, row + count) of
// weight_hh. For gru, the part of n that comes from h is in a fourth column, separate from the part
// that comes from x, since it is multiplied by r.
struct hidden_part {
  std::int64_t begin, count, row;
};
std::vector<hidden_part> hidden_parts(cell_kind k) {
  if (k == cell_kind::gru) return {{0, 2, 0}, {3, 1, 2}};
  return {{0, k == cell_kind::lstm ? 4 : 1, 0}};
}

// Default: uniform in (-s, s), s = 1 / sqrt(units).
filler_spec filler_of(const options& table, std::int64_t units) {
  if (!table.values.empty()) return filler_from(table, "uniform");
  const double s = 1.0 / std::sqrt(static_cast<double>(units));
  return {"uniform", options{{{"min", -s}, {"max", s}}}};
}

// With fewer columns of the result, packing the left operand costs more time than it saves.
constexpr std::int64_t few_columns = 128;

// Weights in the type of the other operand, rounded once for many products.
tensor factor(device& d, const tensor& w, dtype t) { return t == dtype::bf16 ? converted_to(d, w, t) : w; }

tensor from(const tensor& t, std::int64_t begin) { return t.slice(begin, shape{t.count() - begin}); }

}  // namespace

struct recurrent::extents {
  std::int64_t examples, steps, inputs, units;
  std::int64_t rows() const { return examples * steps; }
  std::int64_t state() const { return examples * units; }
  // Conversions of x and dx between examples-first and steps-first order, which are the same for a
  // single step or example.
  bool alike() const { return examples == 1 || steps == 1; }
  void steps_first(device& d, const tensor& x, tensor& to) const {
    for (std::int64_t t = 0; t < steps; ++t)
      d.copy_block({examples, inputs, t * inputs, steps * inputs, t * examples * inputs, inputs}, x, to);
  }
  void examples_first(device& d, const tensor& x, tensor& to) const {
    for (std::int64_t t = 0; t < steps; ++t)
      d.copy_block({examples, inputs, t * examples * inputs, inputs, t * inputs, steps * inputs}, x, to);
  }
};

recurrent::recurrent(cell_kind kind, const options& o)
    : kind_(kind),
      units_(o.integer("units")),
      bias_(o.flag("bias")),
      weight_filler_(filler_of(o.table("weight_filler"), units_)),
      bias_filler_(filler_of(o.table("bias_filler"), units_)) {}

std::int64_t recurrent::gates() const { return kind_ == cell_kind::lstm ? 4 : kind_ == cell_kind::gru ? 3 : 1; }
std::int64_t recurrent::columns() const { return cell_spec{.kind = kind_}.gates(); }

recurrent::extents recurrent::of(const shape& x) const { return {x[0], x[1], x.count_from(2), units_}; }

shapes recurrent::infer(const shapes& in) const {
  want(in.size() == 1 && in[0].rank() >= 3, "one input [N, T, ...]: examples, time, features", in);
  return {shape{in[0][0], in[0][1], units_}};
}

signatures recurrent::supported() const {
  using enum distribution;
  return alike({split_0, broadcast}, 1, bias_ ? 4 : 2);
}

param_specs recurrent::params(const shapes& in) const {
  const auto rows = gates() * units_;
  param_specs p(2);
  p[0] = {.name = "weight_ih", .dims = shape{rows, in[0].count_from(2)}, .filler = weight_filler_};
  p[1] = {.name = "weight_hh", .dims = shape{rows, units_}, .filler = weight_filler_};
  for (const auto* name : {"bias_ih", "bias_hh"})
    if (bias_) p.push_back({.name = name, .dims = shape{rows}, .filler = bias_filler_});
  return p;
}

carry_specs recurrent::carries(const shapes& in) const {
  carry_specs c{{"h", shape{in[0][0], units_}}};
  if (has_c()) c.push_back({"c", shape{in[0][0], units_}});
  return c;
}

struct backward_needs recurrent::backward_needs(const shapes& in) const {
  const auto e = of(in[0]);
  const auto kept = columns() * units_ + (has_c() ? 2 : 1) * units_ + e.inputs;
  return {.inputs = false, .outputs = false, .saved_bytes = 4 * (e.rows() * kept + (has_c() ? 2 : 1) * e.state())};
}

double recurrent::flops(const shapes& in) const {
  const auto e = of(in[0]);
  return 2.0 * static_cast<double>(e.rows()) * static_cast<double>(gates() * units_) * static_cast<double>(e.inputs + units_);
}

// One bias per column of a step.
tensor recurrent::joint_bias(device& d, const tensors& params, dtype t) const {
  tensor b = tensor::allocate(d, shape{columns() * units_}, t);
  d.fill(0.0, b);
  if (!bias_) return b;
  tensor first = b.slice(0, shape{gates() * units_});
  d.copy(params[2], first);
  for (const auto& p : hidden_parts(kind_)) {
    tensor mine = b.slice(p.begin * units_, shape{p.count * units_});
    d.axpy(1.0, params[3].slice(p.row * units_, mine.dims()), mine);
  }
  return b;
}

void recurrent::forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const {
  device& d = c.dev;
  const auto e = of(in[0].dims());
  const auto type = in[0].type();
  const auto width = columns() * units_, step = e.examples * width;
  tensor x = in[0];
  if (!e.alike()) e.steps_first(d, in[0], x = tensor::allocate(d, in[0].dims(), type));
  const auto wide = wide_of(type);  // for the gates, and for c, which is a sum
  tensor g = tensor::allocate(d, shape{e.rows(), width}, wide), c_all;
  tensor h_all = tensor::allocate(d, shape{(e.steps + 1) * e.examples, units_}, type);
  if (has_c()) c_all = tensor::allocate(d, h_all.dims(), wide);
  for (std::size_t k = 0; k < (has_c() ? 2 : 1); ++k) {
    tensor first = (k == 0 ? h_all : c_all).slice(0, shape{e.examples, units_});
    if (c.carried_in && (*c.carried_in)[k])
      d.copy((*c.carried_in)[k], first);
    else
      d.fill(0.0, first);
  }
  const gemm_spec of_x{.transpose_b = true, .m = e.rows(), .n = gates() * units_, .k = e.inputs, .ldc = width};
  d.gemm_packed(of_x, x, d.pack(of_x, factor(d, params[0], type)), g);
  std::vector<std::pair<gemm_spec, tensor>> of_h;
  const tensor hidden_weights = factor(d, params[1], type);
  for (const auto& p : hidden_parts(kind_)) {
    const bool apart = p.begin != p.row;  // the column has no part of x
    const gemm_spec spec{
        .transpose_b = true, .m = e.examples, .n = p.count * units_, .k = units_, .beta = apart ? 0.0 : 1.0, .ldc = width};
    of_h.emplace_back(spec, d.pack(spec, from(hidden_weights, p.row * units_ * units_)));
  }
  const tensor bias = joint_bias(d, params, wide);
  backed(d, out[0]);
  const cell_spec cell{kind_, e.examples, units_, e.steps * units_};
  for (std::int64_t t = 0; t < e.steps; ++t) {
    const auto state = [&](const tensor& all, std::int64_t at) {
      return all ? all.slice(at * e.state(), shape{e.state()}) : tensor{};
    };
    tensor now = g.slice(t * step, shape{step}), y = from(out[0], t * units_);
    tensor h = state(h_all, t + 1), cc = state(c_all, t + 1);
    std::size_t k = 0;
    for (const auto& p : hidden_parts(kind_)) {
      tensor to = from(now, p.begin * units_);
      d.gemm_packed(of_h[k].first, state(h_all, t), of_h[k].second, to);
      ++k;
    }
    d.cell_forward(cell, bias, now, state(h_all, t), state(c_all, t), cc, h, y);
  }
  for (std::size_t k = 0; c.carried_out && k < (has_c() ? 2 : 1); ++k) {
    tensor last = tensor::allocate(d, shape{e.examples, units_}, wide);
    d.copy((k == 0 ? h_all : c_all).slice(e.steps * e.state(), last.dims()), last);
    c.carried_out->push_back(std::move(last));
  }
  s.extra = {g, x, h_all, c_all};
}

// Gradient of the sums of products, steps first.
tensor recurrent::gates_gradient(device& d, const extents& e, const saved& s, const tensors& params, const tensor& dy) const {
  const auto type = dy.type();
  const auto width = columns() * units_, step = e.examples * width;
  const auto &g = s.extra[0], &h_all = s.extra[2], &c_all = s.extra[3];
  tensor dgates = tensor::allocate(d, shape{e.rows(), width}, type), dh = tensor::allocate(d, shape{e.state()}, wide_of(type)), dc;
  d.fill(0.0, dh);
  if (has_c()) d.fill(0.0, dc = tensor::allocate(d, dh.dims(), dh.type()));
  std::vector<std::pair<gemm_spec, tensor>> to_h;
  const tensor hidden_weights = factor(d, params[1], type);
  for (const auto& p : hidden_parts(kind_)) {
    const bool adds = kind_ == cell_kind::gru;  // to the part that bypasses the products
    const gemm_spec spec{.m = e.examples, .n = units_, .k = p.count * units_, .beta = adds ? 1.0 : 0.0, .lda = width};
    to_h.emplace_back(spec, d.pack(spec, from(hidden_weights, p.row * units_ * units_)));
  }
  const cell_spec cell{kind_, e.examples, units_, e.steps * units_};
  for (std::int64_t t = e.steps; t-- > 0;) {
    const auto state = [&](const tensor& all, std::int64_t at) {
      return all ? all.slice(at * e.state(), shape{e.state()}) : tensor{};
    };
    tensor now = dgates.slice(t * step, shape{step});
    d.cell_backward(cell, g.slice(t * step, shape{step}), state(h_all, t), state(h_all, t + 1), state(c_all, t),
                    state(c_all, t + 1), from(dy, t * units_), dh, dc, now);
    std::size_t k = 0;
    for (const auto& p : hidden_parts(kind_)) {
      if (t > 0) d.gemm_packed(to_h[k].first, from(now, p.begin * units_), to_h[k].second, dh);
      ++k;
    }
  }
  return dgates;
}

void recurrent::weight_gradients(device& d, const extents& e, const saved& s, const tensor& dgates, tensors& grad_params,
                                 bool accumulate) const {
  const auto width = columns() * units_;
  assign_or_add(d, grad_params[0], accumulate, [&](tensor& dw) {
    const gemm_spec spec{.transpose_a = true, .m = gates() * units_, .n = e.inputs, .k = e.rows(), .lda = width};
    if (e.inputs < few_columns) return d.gemm(spec, dgates, s.extra[1], dw);
    d.gemm_packed(spec, dgates, d.pack(spec, s.extra[1]), dw);
  });
  assign_or_add(d, grad_params[1], accumulate, [&](tensor& dw) {
    gemm_spec spec{.transpose_a = true, .n = units_, .k = e.rows(), .lda = width};
    const tensor h = d.pack(spec, s.extra[2]);
    for (const auto& p : hidden_parts(kind_)) {
      spec.m = p.count * units_;
      tensor rows = dw.slice(p.row * units_ * units_, shape{spec.m, units_});
      d.gemm_packed(spec, from(dgates, p.begin * units_), h, rows);
    }
  });
}

void recurrent::bias_gradients(device& d, const extents& e, const tensor& dgates, tensors& grad_params, bool accumulate) const {
  if (!bias_ || (!grad_params[2] && !grad_params[3])) return;
  tensor sum = tensor::allocate(d, shape{columns() * units_}, wide_of(dgates.type()));
  d.reduce_sum(e.rows(), sum.count(), 1, dgates, sum);
  assign_or_add(d, grad_params[2], accumulate, [&](tensor& db) { d.copy(sum.slice(0, db.dims()), db); });
  assign_or_add(d, grad_params[3], accumulate, [&](tensor& db) {
    for (const auto& p : hidden_parts(kind_)) {
      tensor rows = db.slice(p.row * units_, shape{p.count * units_});
      d.copy(sum.slice(p.begin * units_, rows.dims()), rows);
    }
  });
}

void recurrent::backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                         tensors& grad_params, bool accumulate) const {
  device& d = c.dev;
  const auto e = of(s.extra[1].dims());
  const tensor dgates = gates_gradient(d, e, s, params, grad_out[0]);
  weight_gradients(d, e, s, dgates, grad_params, accumulate);
  bias_gradients(d, e, dgates, grad_params, accumulate);
  if (!wanted(grad_in, 0)) return;
  const gemm_spec spec{.m = e.rows(), .n = e.inputs, .k = gates() * units_, .lda = columns() * units_};
  tensor& dx = backed(d, grad_in[0]);
  tensor by_step = e.alike() ? dx : tensor::allocate(d, dx.dims(), dx.type());
  d.gemm_packed(spec, dgates, d.pack(spec, factor(d, params[0], dgates.type())), by_step);
  if (!e.alike()) e.examples_first(d, by_step, dx);
}

option_specs recurrent_options() {
  return {required_integer("units", "length of the state and of each output"),
          flag_option("bias", true, "add both biases to each gate"),
          table_option("weight_filler", "filler of the weights; default uniform in (-s, s), s = 1 / sqrt(units)"),
          table_option("bias_filler", "filler of the biases; default as for the weights")};
}

std::vector<layer_case> recurrent_cases(const options& more) {
  using i = std::int64_t;
  const auto with = [&](i units, bool bias) {
    options o = more;
    o.values["units"] = units;
    o.values["bias"] = bias;
    return o;
  };
  return {example("a few steps", with(5, true), {{3, 4, 6}}),
          example("no bias", with(4, false), {{2, 3, 5}}),
          example("one step", with(3, true), {{4, 1, 2}}),
          example("one example", with(7, true), {{1, 5, 3}}),
          example("one of everything", with(1, true), {{1, 1, 1}}),
          example("wide", with(33, true), {{17, 3, 20}}),
          example("features of two axes", with(4, true), {{2, 3, 2, 3}})};
}

}  // namespace troupe
