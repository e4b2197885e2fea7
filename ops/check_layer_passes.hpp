// Runs passes of a layer over random values, for the checks of check_layer.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ops/check_layer.hpp"
#include "ops/layer_support.hpp"
#include "ops/tensor_values.hpp"

namespace troupe {

// Inputs and results of one pass.
struct pass_values {
  tensors in, params, grad_out;
  dtype type = dtype::f64;  // of activations
};
struct pass_results {
  tensors out, grad_in, grad_params;
};

enum class spread { normal, wide };  // of inputs: standard normal, or over [-24, 24]

class layer_passes {
 public:
  layer_passes(const layer& l, bool takes_bf16, const layer_case& c, device& dev, const layer_check& how)
      : layer_(l),
        takes_bf16_(takes_bf16),
        case_(c),
        dev_(dev),
        how_(how),
        seed_(how.seed),
        out_shapes_(l.infer(c.in)),
        specs_(l.params(c.in)),
        needs_(l.backward_needs(c.in)) {}

 protected:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  std::vector<dtype> types() const {
    return takes_bf16_ ? std::vector{dtype::f64, dtype::f32, dtype::bf16} : std::vector{dtype::f64, dtype::f32};
  }
  bool differentiable() const { return !layer_.is_metric(); }
  bool wants_gradient(std::size_t input) const { return differentiable() && layer_.differentiable(input); }

  tensor random(shape s, std::uint32_t number, double deviation = 1.0);
  tensor labels(shape s, std::uint32_t number);
  tensor wide_random(shape s, std::uint32_t number);
  pass_values random_values(std::uint32_t packet, spread of_inputs = spread::normal);
  tensors converted(const tensors& from, dtype t);
  // Converts values to the tensor types of a job of type `t`.
  pass_values converted(const pass_values& v, dtype t);
  tensor copied(const tensor& x);
  tensors copied(const tensors& xs);
  tensor poisoned(shape s, dtype t);
  tensors poisoned_outputs(dtype t);
  tensors poisoned_like(const tensors& xs);

  context make_context(phase ph, std::uint32_t packet = 0) const;
  std::unique_ptr<plan> make_plan(phase ph, dtype t) const;
  tensors forward(const pass_values& v, plan& p, saved& s, phase ph, std::uint32_t packet = 0);
  // `want_in` and `want_params` select the gradients to request. If `into` is not null, parameter
  // gradients are accumulated into its tensors.
  pass_results backward(const pass_values& v, plan& p, const saved& s, std::uint32_t packet = 0, bool want_in = true,
                        bool want_params = true, const tensors* into = nullptr);
  pass_results both(const pass_values& v, plan& p, std::uint32_t packet = 0);
  // All output elements of a forward pass in training.
  std::vector<double> outputs_of(const pass_values& v, plan& p, std::uint32_t packet);

  // Tensors in host memory, for reading.
  tensor home(const tensor& t) const { return at_home(dev_, t); }
  tensors home(tensors list) const {
    for (auto& t : list) t = home(t);
    return list;
  }
  bool same_bits(const tensors& a, const tensors& b) const { return troupe::same_bits(home(a), home(b)); }

  const layer& layer_;
  const bool takes_bf16_;
  const layer_case& case_;
  device& dev_;
  const layer_check& how_;
  std::uint64_t seed_;  // of the values and of the layer's random numbers
  shapes out_shapes_;
  param_specs specs_;
  struct backward_needs needs_;
};

}  // namespace troupe
