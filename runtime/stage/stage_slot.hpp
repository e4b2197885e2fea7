// A sub-solver of a stage: one packet in flight. Its data is lent to the task that runs
// (base/lent.hpp): the stage cannot touch it until the task has finished.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer.hpp"
#include "runtime/base/lent.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

// The tensors of one hosted layer for one packet.
// size: the arguments of one forward and backward pass
struct layer_pass {
  tensors in, out, params;
  tensors grad_out, grad_in, grad_params;
  std::uint32_t gradient_of = 1;  // number of packets summed in grad_params; 0: another slot holds this packet's gradient
  tensors stats;
  tensors carried_in, carried_out;
  saved kept;
  std::unique_ptr<plan> plans[2];  // by phase; created by the first task that needs it
  std::int64_t planned_examples[2] = {0, 0};
  bool again = false;  // recompute: forward has run a second time for this backward
};

// The data of a packet: everything that its tasks read and write.
struct packet_work : std::enable_shared_from_this<packet_work> {
  header h;  // of the packet's forward
  std::uint32_t valid = 0, first_example = 0;
  std::int64_t examples = 0;
  bool continues_sequences = false;  // the packet reads and writes carried state
  std::vector<layer_pass> passes;    // by position in role_plan::layers
  tensors inputs;                    // by in-edge
  tensors wholes;                    // by need (stage_maths): assembled from the inputs
  tensors outgoing;                  // by out-edge, where the message differs from the output: a part of it, or a compressed form
  tensors arriving;                  // backward: gradients, by out-edge
  std::vector<std::pair<std::string, double>> scalars;
  std::vector<double> scalar_weights;  // of the scalars (report::weights)

  bool training() const { return h.phase == static_cast<std::uint8_t>(phase::train); }
};

// What the stage knows of the packet, whether a task runs or not.
struct stage_slot {
  // gather_..: waits for the other packets of its step (gather_stage).
  enum class stage_of { free, gather_forward, forward, sending, waiting, gather_backward, backward } at = stage_of::free;
  // The weights that the packet holds, by position.
  struct held_weights {
    bool any = false;
    std::uint64_t version = 0;
    std::uint64_t lag = 0;  // stash: step - version; latest: versions that arrived between forward and backward
  };

  std::uint32_t index = 0;
  header h;                   // of the packet's forward
  bool is_void = false;       // the packet is no longer needed: it passes without maths
  tensors arrived;            // gradients that wait for the backward, by out-edge
  std::uint32_t missing = 0;  // gradients that have not arrived
  std::vector<bool> sent;     // by out-edge
  std::vector<held_weights> weights;
  lent<packet_work> work{std::make_shared<packet_work>()};
};

}  // namespace troupe
