#include "runtime/node/models/onnx/onnx_format.hpp"

#include "runtime/node/models/onnx/onnx_export.hpp"

namespace troupe {
namespace {

expected<exported_model, diagnostics> write_onnx(const prepared_job& j, const named_tensors& weights, const name_pairs& names) {
  auto made = onnx::export_job(j, weights, names);
  if (!made) return unexpected(std::move(made).error());
  auto bytes = onnx::model_bytes(made->model);
  if (!bytes) return unexpected(model_error({}, bytes.error().text));
  return exported_model{{{".onnx", *std::move(bytes)}}, std::move(made->notes)};
}

}  // namespace

model_format onnx_format() {
  return {"onnx", "ONNX models, operator sets 7 to 17, with their weights", {".onnx"}, {}, write_onnx};
}

}  // namespace troupe
