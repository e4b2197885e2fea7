// What layers carry from step to step under algorithm "bptt" (layer.hpp: carry_spec), as the
// coordinator collects it for a checkpoint and gives it back: one piece a layer and packet. Pieces
// are numbered behind the plan's blocks and travel as blocks do, in `collect`, `state` and
// `restore_state`: value is the layer's first carry, rule the others; empty where nothing has been
// carried yet. A checkpoint has them whole, all lanes of the batch in their order, as
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
  role_id stage = no_role;  // that has it
};
std::vector<carried_piece> carried_pieces(const model_graph& g, const job_plan& p);

std::string carried_name(const graph_layer& l, std::size_t carry);
// Of all lanes.
shape carried_shape(const graph_layer& l, std::size_t carry, std::uint32_t packets);
// One packet's lanes of `whole`.
tensor carried_sequences(const tensor& whole, const shape& dims, std::uint32_t packet);

// The packet's piece from a list that has all of them by name; empty where one is missing.
tensors carried_from(const std::vector<std::pair<std::string, tensor>>& named, const graph_layer& l, std::uint32_t packet);

}  // namespace troupe
