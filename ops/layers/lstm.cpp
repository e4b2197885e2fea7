// lstm: long short-term memory with cell c and state h, unrolled over time (recurrent.hpp).
//   (i, f, g, o) = W_ih x_t + b_ih + W_hh h_(t-1) + b_hh
//   c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g);  h_t = sigmoid(o) tanh(c_t);  y_t = h_t
// Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000. Gate order and both
// biases as in PyTorch's nn.LSTM.
#include "ops/layers/recurrent.hpp"

namespace troupe {

layer_type lstm_layer() {
  return {.name = "lstm",
          .doc =
              "[N, T, D] -> [N, T, units]: (i, f, g, o) = W_ih x_t + b_ih + W_hh h + b_hh; c = s(f) c + s(i) tanh(g); y_t = h = "
              "s(o) tanh(c), s = sigmoid. weight_ih [4 units, D], weight_hh [4 units, units], bias_ih, bias_hh [4 units], as in "
              "nn.LSTM. With algorithm = \"bptt\" h and c are carried from step to step; otherwise they start at zero. Hochreiter "
              "and Schmidhuber 1997.",
          .specs = recurrent_options(),
          .make = [](const options& o) { return std::make_unique<recurrent>(cell_kind::lstm, o); },
          .cases = recurrent_cases()};
}

}  // namespace troupe
