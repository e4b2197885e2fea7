// Activations and their gradients, and the credit that bounds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Producer stage -> consumer stage, in-edge header.port. `valid` is how many examples of the packet
// are real (the rest pads the last evaluation batch); `first_example` the index in the step's
// global batch of the packet's first example.
struct forward {
  tensor value;
  std::uint32_t valid = 0;
  std::uint32_t first_example = 0;
};

// Consumer stage -> producer stage, out-edge header.port: d loss / d value. Uses the credit its
// forward reserved.
struct backward {
  tensor grad;
};

// Consumer -> producer: `count` slots of out-edge header.port are free again.
struct credit {
  std::uint32_t count = 1;
};

// Loader -> data server or another loader: send packet header.packet of header.step (of the
// evaluation round header.step when header.phase is test). One request is credit for one answer; it
// may be repeated, since the answer is a pure function of it.
struct want_examples {};

// The answer with the examples themselves (samplers `served`, `replicate`), or with the number that
// they follow from (`seeded`). A loader drops an answer that it does not wait for.
struct examples {
  tensor data, label;
};
struct examples_seed {
  std::uint64_t seed = 0;
};

}  // namespace troupe
