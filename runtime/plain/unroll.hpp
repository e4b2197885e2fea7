// From a stack of Boltzmann machines to the autoencoder that they seed (Hinton and Salakhutdinov
// 2006, figure 1): each machine's weights once up and once, transposed, back down.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

struct unrolled {
  std::vector<std::pair<std::string, tensor>> named;
  std::vector<std::string> layers;  // linear layers of the autoencoder, from the data through the code and back to it
};

// A machine NAME has NAME.weight [units, visible], NAME.bias and NAME.visible_bias; they are
// stacked in the order of `named`. Of each come NAME.weight and NAME.bias, and for the way back
// NAME_back.weight, the transpose, with NAME_back.bias, the visible bias. Everything else in
// `named` is left out. Error: a sentence (no machine, parts missing or of unlike sizes, f32
// wanted).
std::variant<unrolled, std::string> unroll(const std::vector<std::pair<std::string, tensor>>& named);

}  // namespace troupe
