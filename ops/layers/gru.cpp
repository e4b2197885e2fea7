// gru: gated recurrent unit with state h, unrolled over time (recurrent.hpp).
//   r, z = sigmoid(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)
//   n = tanh(W_in x_t + b_in + r (W_hn h_(t-1) + b_hn))
//   h_t = (1 - z) n + z h_(t-1);  y_t = h_t
// Cho et al. 2014, with r applied after the product, as in PyTorch's nn.GRU and cuDNN. Gate order
// r, z, n.
#include "ops/layers/recurrent.hpp"

namespace troupe {

layer_type gru_layer() {
  return {
      .name = "gru",
      .doc =
          "[N, T, D] -> [N, T, units]: r, z = s(W_ih x_t + b_ih + W_hh h + b_hh); n = tanh(W_in x_t + b_in + r (W_hn h + b_hn)); "
          "y_t = h = (1 - z) n + z h, s = sigmoid. weight_ih [3 units, D], weight_hh [3 units, units], bias_ih, bias_hh [3 units], "
          "as in nn.GRU. With algorithm = \"bptt\" h is carried from step to step; otherwise it starts at zero. Cho et al. 2014.",
      .specs = recurrent_options(),
      .make = [](const options& o) { return std::make_unique<recurrent>(cell_kind::gru, o); },
      .cases = recurrent_cases()};
}

}  // namespace troupe
