// rnn: a plain recurrent net, unrolled over time (recurrent.hpp).
//   h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), f = tanh or relu;  y_t = h_t
// Elman 1990; as PyTorch's nn.RNN.
#include "ops/layers/recurrent.hpp"

namespace troupe {

layer_type rnn_layer() {
  auto specs = recurrent_options();
  specs.push_back(choice_option("activation", {"tanh", "relu"}, "the activation function f"));
  auto cases = recurrent_cases();
  for (auto& c : recurrent_cases({{{"activation", std::string("relu")}}})) {
    c.name += ", relu";
    cases.push_back(std::move(c));
  }
  return {.name = "rnn",
          .doc =
              "[N, T, D] -> [N, T, units]: y_t = h = f(W_ih x_t + b_ih + W_hh h + b_hh), f = tanh or relu. weight_ih [units, D], "
              "weight_hh [units, units], bias_ih, bias_hh [units], as in nn.RNN. With algorithm = \"bptt\" h is carried from step "
              "to step; otherwise it starts at zero. Elman 1990.",
          .specs = std::move(specs),
          .make =
              [](const options& o) {
                return std::make_unique<recurrent>(o.text("activation") == "relu" ? cell_kind::rnn_relu : cell_kind::rnn_tanh, o);
              },
          .cases = std::move(cases)};
}

}  // namespace troupe
