// Gradients and weights between stages, workers and parameter shards. A `block` is the slice
// [begin, begin + count) of one flattened parameter that one shard owns; the plan lists all blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tensor.hpp"
#include "runtime/messages/square_sum.hpp"
#include "runtime/messages/value_histogram.hpp"

namespace troupe {

// Stage -> worker: the gradients of all trainable parameters of layer `layer` for packet
// header.packet of header.step, in parameter order; `stats` are the new running statistics. A
// gather stage sends the sum over packets [header.packet, header.packet + span), a node of the
// packet tree, without statistics. `lag`: with weights = "stash", the number of steps by which the
// weights are behind header.step; with "latest", the number of versions that arrived between the
// packet's forward and backward.
struct gradient {
  std::uint32_t layer = 0;
  tensors grads;
  tensors stats;
  std::uint32_t span = 1;
  std::uint32_t lag = 0;
};

// Worker or reducer -> shard or reducer: the sum over the packets [first, first + span) of
// header.step for one block. The range is a node of the packet tree, so that the result does not
// depend on which worker computed which packet. `across`: the receiver is a reducer of the sender's
// node that reads the memory of every device (role_plan::across), so the sum is not copied to its
// device.
// Modes that do not push gradients define `sum` themselves. From a worker with its own weights,
// header.step is the step that it makes next.
// Shard -> master shard (group_sync, hogwild): the sender's changes since its last push of the
// block; `increment` is their number, from 1 on. No header.step.
struct push {
  std::uint32_t block = 0;
  std::uint32_t first = 0;
  std::uint32_t span = 1;
  tensor sum;
  bool across = false;
  std::uint64_t increment = 0;
};

// Shard or reducer -> worker or reducer: a block at version header.version; the answer to a `fetch`
// has its header.step.
// Master shard -> shard: the block with the sender's increment number `increment`.
struct weights {
  std::uint32_t block = 0;
  tensor value;
  std::uint64_t increment = 0;
};

// Worker or tester -> stage, tester -> coordinator: all parameters of one layer at version
// header.version.
struct layer_weights {
  std::uint32_t layer = 0;
  tensors values;
};

// Shard -> the other shards of its server group: partial sums of squares of the gradient of `block`
// at header.step, for clipping by norm (reduce/norm.hpp).
struct norm_partials {
  std::uint32_t block = 0;
  std::vector<square_sum> parts;
};

// Shard -> the other shards of its server group: all gradients of worker group `group` at
// header.step have been checked; those of the blocks `bad` are not finite.
// Shard or worker -> coordinator: the gradients of the blocks `bad` at header.step are not finite
// (docs/failures.md). From a worker, `group` is the index of the worker.
struct nonfinite_report {
  std::uint32_t group = 0;
  std::vector<std::uint32_t> bad;  // ids of blocks
};

// Shard -> coordinator: histograms of one block, for step header.step (the request's). `weight`: of
// its value at header.version. `gradient`: of the mean gradient, before clipping and decay, whose
// update made this version; none where the shard has no gradient of the block.
struct histogram {
  std::uint32_t block = 0;
  value_histogram weight;
  std::vector<value_histogram> gradient;  // at most one
};

// Worker -> shard: send the block once its version is at least header.version. Answered by
// `weights` with the same header.step.
struct fetch {
  std::uint32_t block = 0;
};

// Progress of a role, by `what`:
//   flushed    worker -> shard -> coordinator: the flush of round `round`, at step header.step, is
//              complete
//   adopted    worker -> coordinator: it runs the mode of header.mode_epoch, from header.step on
//   work_unit  worker -> coordinator: packets [first, first + count) of step header.step are summed
//              and pushed; with `count` 0: the worker has the weights of step header.step, so all
//              work units of earlier steps are complete
//   copied     replica -> shard: it holds block `block` at header.version (sync/replica.hpp)
struct ready {
  enum class what_of : std::uint8_t { flushed, adopted, work_unit, copied };
  what_of what = what_of::flushed;
  std::uint64_t round = 0;
  std::uint32_t first = 0, count = 0;
  std::uint32_t block = 0;
};

}  // namespace troupe
