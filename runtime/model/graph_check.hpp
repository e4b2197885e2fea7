// What must be true of a model as a whole, asked when all its layers are there; each adds the
// mistakes that it finds.
// Threads: functions without state.
#pragma once

#include <string>

#include "runtime/model/graph.hpp"

namespace troupe {

// Where a key of a layer's table is, and a mistake there that names the layer.
source_position position_of(const layer_spec& spec, const std::string& key);
diagnostic mistake_of(const layer_spec& spec, const std::string& key, const std::string& message);

// What runs in one phase reads only what runs in it too.
void check_phases(const model_graph& g, diagnostics& errors);
// What nobody reads was a mistake, and somebody has to say what is to be minimised. To be asked
// when every input is the one that was meant.
void check_ends(const model_graph& g, const job_spec& job, diagnostics& errors);

// Packets of [eval] batch where they are larger than training's: is every tensor still within
// bounds (shape_bounds.hpp)?
void check_evaluated(const model_graph& g, const job_spec& job, diagnostics& errors);

// Of a graph whose gradients have been marked (gradients.hpp). Parameters that no gradient ever
// reaches would leave the worker waiting for them.
void check_trained(const model_graph& g, const job_spec& job, diagnostics& errors);
// Does train.algorithm suit the layers? "bptt" needs one that carries state, and "cd" one that
// learns by itself (rbm).
void check_algorithm(const model_graph& g, const job_spec& job, diagnostics& errors);

}  // namespace troupe
