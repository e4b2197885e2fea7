// Activations and their gradients, and the credit that bounds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Producer stage -> consumer stage, in-edge header.port. `valid` is how many examples of the packet are real (the rest pads the
// last evaluation batch); `first_example` the index in the step's global batch of the packet's first example.
struct forward {
  tensor value;
  std::uint32_t valid = 0;
  std::uint32_t first_example = 0;
};

// Consumer stage -> producer stage, out-edge header.port: d loss / d value. Uses the credit its forward reserved.
struct backward {
  tensor grad;
};

// Consumer -> producer: `count` slots of out-edge header.port are free again.
struct credit {
  std::uint32_t count = 1;
};

}  // namespace troupe
