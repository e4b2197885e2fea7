// State that layers carry from step to step under algorithm "bptt" (carry_spec in layer.hpp), as
// the coordinator collects it for a checkpoint and restores it: one piece per layer and packet.
// Pieces are numbered after the plan's blocks and are sent like blocks, in `collect`, `state` and
// `restore_state`: `value` is the layer's first carry, `rule` the others; empty if nothing has been
// carried yet. A checkpoint stores each carry whole, all sequence slots of the batch in order, as
// "<layer>.<carry>@carried".
// Errors: none.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

struct carried_piece {
  std::uint32_t block = 0, layer = 0, packet = 0;
  role_id stage = no_role;  // the stage that holds it
};
std::vector<carried_piece> carried_pieces(const model_graph& g, const job_plan& p);

std::string carried_name(const graph_layer& l, std::size_t carry);
// The shape for all sequence slots.
shape carried_shape(const graph_layer& l, std::size_t carry, std::uint32_t packets);
// The slice of `whole` for one packet's sequence slots.
tensor carried_sequences(const tensor& whole, const shape& dims, std::uint32_t packet);

// The packet's piece, from a list of named tensors of all packets; empty if one is missing.
tensors carried_from(const std::vector<std::pair<std::string, tensor>>& named, const graph_layer& l, std::uint32_t packet);

}  // namespace troupe
