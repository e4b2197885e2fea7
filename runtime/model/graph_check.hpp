// Checks of a model as a whole, after all its layers are built. Each check appends the mistakes
// that it finds.
// Threads: functions without state.
#pragma once

#include <string>

#include "runtime/model/graph.hpp"

namespace troupe {

// The position of a key of a layer's table, and a mistake at that position, which names the layer.
source_position position_of(const layer_spec& spec, const std::string& key);
diagnostic mistake_of(const layer_spec& spec, const std::string& key, const std::string& message);

// A layer that runs in a phase reads only layers that run in that phase too.
void check_phases(const model_graph& g, diagnostics& errors);
// Every output is used, unless the layer is a loss or metric, and a loss runs in training. Call
// only if all inputs are resolved.
void check_ends(const model_graph& g, const job_spec& job, diagnostics& errors);

// If packets of [eval] batch are larger than those of training, every tensor must still be within
// the bounds (shape_bounds.hpp).
void check_evaluated(const model_graph& g, const job_spec& job, diagnostics& errors);

// Every layer with parameters receives gradients; otherwise the worker would wait for them. Call
// after mark_gradients (gradients.hpp).
void check_trained(const model_graph& g, const job_spec& job, diagnostics& errors);
// train.algorithm must suit the layers: "bptt" needs a layer that carries state, "cd" one that
// is its own loss (rbm).
void check_algorithm(const model_graph& g, const job_spec& job, diagnostics& errors);

}  // namespace troupe
