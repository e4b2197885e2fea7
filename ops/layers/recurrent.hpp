// Implementation of rnn, lstm and gru: a recurrent net of one layer, unrolled over time inside the
// layer.
//   shapes      x [N, T, ...] of D elements per step -> y [N, T, units], the states h_1 .. h_T
//   formula     p_t = W_ih x_t + b_ih + W_hh h_(t-1) + b_hh, then the cell of geometry.hpp
//               (cell_spec) applied to p_t
//   parameters  weight_ih [G units, D], weight_hh [G units, units], bias_ih, bias_hh [G units],
//               with the G gates in PyTorch's order
//   gradient    through the T steps of the packet (Werbos 1990). h_0 (and c_0 of lstm) is zero, or
//               the state that the host carries over from the previous step (context::carried_in):
//               truncated back-propagation, Williams and Peng 1990.
// The products with x are one product for all T steps, forward and backward, and so are the
// gradients of the weights.
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
  std::int64_t columns() const;  // gate columns saved per step
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
// Cases for check_layer, each with the additional options `more`.
std::vector<layer_case> recurrent_cases(const options& more = {});

}  // namespace troupe
