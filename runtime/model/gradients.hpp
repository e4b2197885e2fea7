// Which gradients must flow through a model: the last step of build_graph, on a valid graph.
#pragma once

#include "runtime/model/graph.hpp"

namespace troupe {

bool has_trainable(const model_graph& graph, const graph_layer& layer);

// Sets wants_backward and grad_in_wanted. A layer runs backward if it or a layer before it has
// parameters, and a loss computed in training depends on it (or is the layer itself).
void mark_gradients(model_graph& graph);

}  // namespace troupe
