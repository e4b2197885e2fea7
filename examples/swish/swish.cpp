// swish: y = x s, s = sigmoid(beta x).  dy/dx = s + beta x s (1 - s) = s + beta y (1 - s).
// Shapes: any -> same.  Ramachandran, Zoph, Le 2017, eq. 1.
//
// learned_swish: the same with beta as a parameter [1].  dy/dbeta = x^2 s (1 - s) = x y (1 - s).
//
// A layer outside the tree: this file, built against the installed package, is the complete plugin.
#include <cmath>

#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace {

using namespace troupe;

template <class T>
T gate(T beta, T x) {
  return T(1) / (T(1) + std::exp(-beta * x));
}

// Calls f with a zero of the tensor's type.
template <class F>
void each(const tensor& t, F&& f) {
  t.type() == dtype::f64 ? f(double{}) : f(float{});
}

class swish final : public layer {
 public:
  explicit swish(double beta) : beta_(beta) {}

  shapes infer(const shapes& in) const override { return {in[0]}; }
  signatures supported() const override {
    return {{{distribution::split_0}, {}, {distribution::split_0}}, {{distribution::split_1}, {}, {distribution::split_1}}};
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = true, .outputs = true};
  }

  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0].back(c.dev);
    each(in[0], [&](auto zero) {
      using T = decltype(zero);
      const T* x = in[0].data<T>();
      T* y = out[0].mutable_data<T>();
      for (std::int64_t i = 0; i < in[0].count(); ++i) y[i] = x[i] * gate(static_cast<T>(beta_), x[i]);
    });
  }

  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    each(s.inputs[0], [&](auto zero) {
      using T = decltype(zero);
      const T *x = s.inputs[0].data<T>(), *y = s.outputs[0].data<T>(), *dy = grad_out[0].data<T>();
      T* dx = grad_in[0].mutable_data<T>();
      for (std::int64_t i = 0; i < s.inputs[0].count(); ++i) {
        const T g = gate(static_cast<T>(beta_), x[i]);
        dx[i] = dy[i] * (g + static_cast<T>(beta_) * y[i] * (T(1) - g));
      }
    });
  }

 private:
  double beta_;
};

class learned_swish final : public layer {
 public:
  explicit learned_swish(double begin) : begin_(begin) {}

  shapes infer(const shapes& in) const override { return {in[0]}; }
  // Every part of a layer that is split by examples has the whole parameter.
  signatures supported() const override { return {{{distribution::split_0}, {distribution::broadcast}, {distribution::split_0}}}; }
  param_specs params(const shapes&) const override {
    param_specs all(1);
    all[0].name = "beta";
    all[0].dims = shape{1};
    all[0].filler.values.values["value"] = begin_;  // kind "constant"
    all[0].decay_multiplier = 0;
    return all;
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = true, .outputs = true};
  }

  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    out[0].back(c.dev);
    each(in[0], [&](auto zero) {
      using T = decltype(zero);
      const T *x = in[0].data<T>(), beta = *params[0].data<T>();
      T* y = out[0].mutable_data<T>();
      for (std::int64_t i = 0; i < in[0].count(); ++i) y[i] = x[i] * gate(beta, x[i]);
    });
  }

  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    each(s.inputs[0], [&](auto zero) {
      using T = decltype(zero);
      const T *x = s.inputs[0].data<T>(), *y = s.outputs[0].data<T>(), *dy = grad_out[0].data<T>();
      const T beta = *params[0].data<T>();
      const auto n = s.inputs[0].count();
      if (grad_params[0]) {  // else the parameter is frozen
        double sum = 0;      // in double: a sum over all elements
        for (std::int64_t i = 0; i < n; ++i)
          sum += static_cast<double>(dy[i]) * static_cast<double>(x[i] * y[i] * (T(1) - gate(beta, x[i])));
        grad_params[0].back(c.dev);
        T& gradient = *grad_params[0].mutable_data<T>();
        gradient = (accumulate ? gradient : T(0)) + static_cast<T>(sum);
      }
      if (!grad_in[0]) return;
      grad_in[0].back(c.dev);
      T* dx = grad_in[0].mutable_data<T>();
      for (std::int64_t i = 0; i < n; ++i) {
        const T g = gate(beta, x[i]);
        dx[i] = dy[i] * (g + beta * y[i] * (T(1) - g));
      }
    });
  }

 private:
  double begin_;
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  option_spec beta;
  beta.name = "beta";
  beta.kind = option_kind::real;
  beta.fallback = 1.0;
  beta.doc = "steepness of the gate; 0 gives x / 2";
  layer_type swish_type;
  swish_type.name = "swish";
  swish_type.doc = "y = x sigmoid(beta x), any shape. Ramachandran et al. 2017.";
  swish_type.specs = {beta};
  swish_type.make = [](const options& o) { return std::make_unique<swish>(o.real("beta")); };
  swish_type.cases = {{"scalar_row", {}, {{1, 1}}},
                      {"row", {}, {{3, 5}}},
                      {"image", {}, {{2, 3, 4, 5}}},
                      {"steep", {{{"beta", 3.0}}}, {{4, 4}}},
                      {"flat", {{{"beta", 0.0}}}, {{2, 7}}}};
  t.layers.add(std::move(swish_type));

  beta.doc = "initial value of beta";
  layer_type learned;
  learned.name = "learned_swish";
  learned.doc = "y = x sigmoid(beta x) with a learned beta, any shape. Ramachandran et al. 2017.";
  learned.specs = {beta};
  learned.make = [](const options& o) { return std::make_unique<learned_swish>(o.real("beta")); };
  learned.cases = {{"scalar_row", {}, {{1, 1}}},
                   {"row", {}, {{3, 5}}},
                   {"image", {}, {{2, 3, 4, 5}}},
                   {"steep", {{{"beta", 3.0}}}, {{4, 4}}},
                   {"flat", {{{"beta", 0.0}}}, {{2, 7}}}};
  t.layers.add(std::move(learned));
}
