// Weights of the layers of an import. Nodes that read one initializer have equal ones: they are
// kept once, so that the memory of an import does not grow with the number of such nodes.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe::onnx {

class kept_weights {
 public:
  // A tensor of these values; it shares its memory with an earlier one of the same shape and bits.
  tensor keep(const shape& dims, std::vector<float> values);

 private:
  std::multimap<std::size_t, tensor> by_hash_;
};

}  // namespace troupe::onnx
