// Weights of PyTorch in safetensors files. Troupe's layers keep their parameters in PyTorch's
// shapes and under PyTorch's names (weight, bias, running_mean, weight_ih, ...), so a model of
// PyTorch differs in the names of its layers only.
#pragma once

#include "runtime/node/models/model_format.hpp"

namespace troupe {

model_format torch_format();

}  // namespace troupe
