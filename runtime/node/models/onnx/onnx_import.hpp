// An ONNX model as the text of a job file and weights. Layers are named for the nodes. The job
// reads synthetic examples of the input's extents, and a loss compares its output with labels;
// notes say what to replace.
#pragma once

#include "runtime/node/models/model_format.hpp"
#include "runtime/node/models/onnx/onnx_model.hpp"

namespace troupe::onnx {

// `file`: its name, for errors and for the name of the job.
expected<imported_model, diagnostics> import_graph(const model& m, const std::string& file);

}  // namespace troupe::onnx
