// What rnn, lstm and gru share: a recurrent net of one layer, unrolled over time inside the layer.
//   shapes  x [N, T, ...] of D elements a step -> y [N, T, units], the states h_1 .. h_T
//   with p_t = W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, and the cell of geometry.hpp (cell_spec) on p_t
//   parameters  weight_ih [G units, D], weight_hh [G units, units], bias_ih, bias_hh [G units]; the G gates in PyTorch's order
//   gradient  back through the T steps of the packet and no further (Werbos 1990). h_0 (lstm: and c_0) is zero, or what the host carries
//   over from the step before (context::carried_in): truncated back-propagation, Williams and Peng 1990.
// The part of x is one product for all T steps, forward and backward; so are the gradients of the weights.
#pragma once

#include <memory>
#include <string>

#include "ops/layer_support.hpp"

namespace troupe {

class recurrent final : public layer {
 public:
  recurrent(cell_kind kind, const options& o);

  shapes infer(const shapes& in) const override;
  signatures supported() const override;
  param_specs params(const shapes& in) const override;
  carry_specs carries(const shapes& in) const override;
  struct backward_needs backward_needs(const shapes& in) const override;
  double flops(const shapes& in) const override;
  void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const override;
  void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override;

 private:
  struct extents;
  extents of(const shape& x) const;
  bool has_c() const { return kind_ == cell_kind::lstm; }
  std::int64_t gates() const;    // of weights and biases
  std::int64_t columns() const;  // of what is kept of a step
  tensor joint_bias(device& d, const tensors& params, dtype t) const;
  void bias_gradients(device& d, const extents& e, const tensor& dgates, tensors& grad_params, bool accumulate) const;
  void weight_gradients(device& d, const extents& e, const saved& s, const tensor& dgates, tensors& grad_params,
                        bool accumulate) const;
  tensor gates_gradient(device& d, const extents& e, const saved& s, const tensors& params, const tensor& dy) const;

  cell_kind kind_;
  std::int64_t units_;
  bool bias_;
  filler_spec weight_filler_, bias_filler_;
};

option_specs recurrent_options();
// Cases for check_layer, with `more` added to the options of each.
std::vector<layer_case> recurrent_cases(const options& more = {});

}  // namespace troupe
