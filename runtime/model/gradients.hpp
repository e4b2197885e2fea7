// Which gradients have to flow through a model: the last step of build_graph, on a graph that is
// sound.
#pragma once

#include "runtime/model/graph.hpp"

namespace troupe {

bool has_trainable(const model_graph& graph, const graph_layer& layer);

// Sets wants_backward and grad_in_wanted: a layer works backward when there is something to train
// at or before it, and a loss that is computed in training at or behind it.
void mark_gradients(model_graph& graph);

}  // namespace troupe
