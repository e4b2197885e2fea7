// A job's net as an ONNX model, for inference: the layers that the job's prediction depends on
// (runtime/plain/prediction.hpp), in the test phase. The input is "data", as the net reads it
// (after the source's scaling and the augmentation), the output "scores", with the batch "N" in
// front.
#pragma once

#include "runtime/node/models/model_format.hpp"
#include "runtime/node/models/onnx/onnx_model.hpp"

namespace troupe::onnx {

struct exported {
  struct model model;
  std::vector<std::string> notes;
};

expected<exported, diagnostics> export_job(const prepared_job& j, const named_tensors& weights, const name_pairs& names);

}  // namespace troupe::onnx
