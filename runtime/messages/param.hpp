// Gradients and weights between stages, workers and parameter shards. A `block` is the slice
// [begin, begin + count) of one flattened parameter that one shard owns; the plan lists all blocks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Stage -> worker: gradients of all trainable parameters of layer `layer` for packet header.packet
// of header.step, in parameter order; `stats` are running statistics for the buffers. Of a stage
// that gathers packets: the sum over those of the tree's node that begins at header.packet and has
// this span (without statistics). `lag`: how many steps the weights it was computed with were
// behind header.step.
struct gradient {
  std::uint32_t layer = 0;
  tensors grads;
  tensors stats;
  std::uint32_t span = 1;
  std::uint32_t lag = 0;
};

// Worker -> shard: the sum over the packets [first, first + span) of header.step for one block. The
// range is a node of the fixed binary tree over packets, so that the shard's additions do not
// depend on who computed what.
struct push {
  std::uint32_t block = 0;
  std::uint32_t first = 0;
  std::uint32_t span = 1;
  tensor sum;
};

// Shard -> worker: block at version header.version. With flag_join, `wanted` is the step whose
// gradient the shard wants next.
struct weights {
  std::uint32_t block = 0;
  tensor value;
  std::uint64_t wanted = 0;
};

// Worker -> stage: all parameters of one layer at version header.version.
struct layer_weights {
  std::uint32_t layer = 0;
  tensors values;
};

// Shard -> the other shards of its server group: partial sums of squares of the gradient of
// `block`, of header.step (clipping by norm; reduce/norm.hpp). By part: its node in the tree over
// the parameter, first << 32 | span, and the bits of the sum.
struct norm_partials {
  std::uint32_t block = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
};

// Shard -> the other shards of its server group: the gradients of header.step of worker group
// `group` are here for all its blocks, and looked at; those of `bad` are not finite. Shard or
// worker -> coordinator: these are not, and what is done about it stands in docs/failures.md;
// `group` is then the worker's index where a worker steps by itself.
struct nonfinite_report {
  std::uint32_t group = 0;
  std::vector<std::uint32_t> bad;  // ids of blocks
};

// Worker -> shard: send block (or, of a gossiping worker, your copy of it) once its version is
// header.version or more. Answered by `weights`. header.step tells the asker's step and comes back
// with the answer. `join`: the asker has been restarted; the answer's `wanted` is the step whose
// gradient the shard wants next from it; header.packets how many answers there are (2: the version
// before too).
struct fetch {
  std::uint32_t block = 0;
  bool join = false;
};

// "I have come so far": settled, header.step is the boundary (worker -> shard -> coordinator);
// adopted (worker and shard -> coordinator); joined, again there after a restart and going on with
// header.step (worker -> coordinator); portion, its packets [header.packet, + header.packets) of
// header.step are summed and sent (worker -> coordinator); with header.packets 0: this worker has
// weights of header.step, all portions of earlier steps are over; copied: the block header.packet
// is here at header.version (replica -> shard; sync/replica.hpp). `mode_epoch`: of `adopted`, the
// one that has begun.
struct ready {
  enum class what_of : std::uint8_t { flushed, adopted, joined, work_unit, copied };
  what_of what = what_of::flushed;
  std::uint8_t mode_epoch = 0;
};

}  // namespace troupe
