// The text and the weights of an imported job.
#pragma once

#include "runtime/node/models/model_format.hpp"
#include "runtime/node/models/onnx/import_state.hpp"

namespace troupe::onnx {

// `outputs`: what the losses read. Layers that no output depends on are left out.
imported_model imported_job(importing& to, const activation& data, const std::vector<activation>& outputs, const std::string& name);

}  // namespace troupe::onnx
