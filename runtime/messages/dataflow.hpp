// Activations, their gradients and their credit between stages; examples for loaders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Producer stage or loader -> consumer stage, in-edge header.port: one tensor of a packet. `valid`
// is the number of real examples; the others pad the last batch of an evaluation. `first_example`
// is the index of the packet's first example in the step's global batch. Takes one credit.
struct forward {
  tensor value;
  std::uint32_t valid = 0;
  std::uint32_t first_example = 0;
};

// Consumer stage -> producer stage, out-edge header.port: d loss / d value. Needs no credit beyond
// that of its forward.
struct backward {
  tensor grad;
};

// Consumer -> producer: packet header.id has left the consumer and returns its credit on out-edge
// header.port. `count` is always 1.
struct credit {
  std::uint32_t count = 1;
};

// Loader -> data server: send packet header.packet of step header.step (of evaluation round
// header.step if header.phase is test). Loader -> another loader (sampler `replicate`): send the
// examples of step header.step that each worker has as its packet number `nth`. A request is credit
// for one answer. It may be repeated, because the answer is a pure function of it.
struct want_examples {
  std::uint32_t nth = 0;
};

// The answer: the examples (samplers `served`, `replicate`), or the seed from which the loader
// draws them (`seeded`). `nth` as in the request. A loader drops an answer that it does not wait
// for.
struct examples {
  tensor data, label;
  std::uint32_t nth = 0;
};
struct examples_seed {
  std::uint64_t seed = 0;
};

}  // namespace troupe
