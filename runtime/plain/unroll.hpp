// Converts a stack of Boltzmann machines to the autoencoder that they initialise (Hinton and
// Salakhutdinov 2006, figure 1): each machine's weights once up and once, transposed, down.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

struct unrolled {
  std::vector<std::pair<std::string, tensor>> named;
  std::vector<std::string> layers;  // linear layers of the autoencoder, from the data through the code and back to the data
};

// A machine NAME has NAME.weight [units, visible], NAME.bias and NAME.visible_bias; machines are
// stacked in the order of `named`. Each yields NAME.weight and NAME.bias, and for the decoder
// NAME_back.weight, the transpose, with NAME_back.bias, the visible bias. Other tensors of `named`
// are ignored. Returns an error text if there is no machine, if parts are missing or their sizes do
// not match, or if a type is not f32.
expected<unrolled> unroll(const std::vector<std::pair<std::string, tensor>>& named);

}  // namespace troupe
