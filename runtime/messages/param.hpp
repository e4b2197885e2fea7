// Gradients and weights between stages, workers and parameter shards.
// A `block` is the slice [begin, begin + count) of one flattened parameter that one shard owns; the plan lists all blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Stage -> worker: gradients of all trainable parameters of layer `layer` for packet header.packet of header.step, in parameter
// order; `stats` are running statistics for the buffers.
struct gradient {
  std::uint32_t layer = 0;
  tensors grads;
  tensors stats;
};

// Worker -> shard: the sum over the packets [first, first + span) of header.step for one block. The range is a node of the fixed
// binary tree over packets, so that the shard's additions do not depend on who computed what.
struct push {
  std::uint32_t block = 0;
  std::uint32_t first = 0;
  std::uint32_t span = 1;
  tensor sum;
};

// Shard -> worker: block at version header.version.
struct weights {
  std::uint32_t block = 0;
  tensor value;
};

// Worker -> stage: all parameters of one layer at version header.version.
struct layer_weights {
  std::uint32_t layer = 0;
  tensors values;
};

// Stage -> worker and worker -> coordinator: nothing more is under way for header.step.
struct ready {};

}  // namespace troupe
