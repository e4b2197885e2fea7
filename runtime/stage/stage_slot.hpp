// A sub-solver of a stage and what it holds of its packet. While a task of the slot runs, the slot
// is the task's; else it is the stage's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

// What one hosted layer holds of one packet.
struct layer_pass {
  tensors in, out, params;
  tensors grad_out, grad_in, grad_params;
  std::uint32_t gradient_of = 1;  // packets that grad_params is the sum of; 0: another slot has this packet's
  tensors stats;
  tensors carried_in, carried_out;
  saved kept;
  std::unique_ptr<plan> plans[2];  // by phase; made by the first task that needs it
  std::int64_t planned_examples[2] = {0, 0};
  bool again = false;         // recompute: forward has run again for this backward
  std::uint64_t version = 0;  // of `params`
  std::uint64_t lag = 0;      // stash: steps that it lacked; latest: versions that came between forward and backward
};

// A sub-solver.
struct stage_slot : std::enable_shared_from_this<stage_slot> {
  // gather_..: waits for the other packets of its step (gather_stage). lost: begin_again() has
  // given up its packet, and its task still runs.
  enum class stage_of { free, gather_forward, forward, sending, waiting, gather_backward, backward, lost } at = stage_of::free;
  std::uint32_t index = 0;
  header h;  // of the packet's forward
  std::uint32_t valid = 0, first_example = 0;
  std::vector<layer_pass> passes;    // by position in role_plan::layers
  bool is_void = false;              // nobody needs it any more
  bool continues_sequences = false;  // state is carried on from this packet
  std::int64_t examples = 0;
  tensors inputs;             // by in-edge
  tensors wholes;             // by need: put together from the inputs
  tensors outgoing;           // by out-edge, where something else than the whole output as it is leaves: a part, or fewer bytes
  tensors arriving;           // gradients, by out-edge
  std::uint32_t missing = 0;  // gradients still to come
  std::vector<bool> sent;     // by out-edge
  std::vector<std::pair<std::string, double>> scalars;
};

}  // namespace troupe
