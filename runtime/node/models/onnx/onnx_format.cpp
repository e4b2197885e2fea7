#include "runtime/node/models/onnx/onnx_format.hpp"

#include "runtime/node/models/onnx/onnx_export.hpp"
#include "runtime/node/models/onnx/onnx_import.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

expected<imported_model, diagnostics> read_onnx(const import_request& asked) {
  if (asked.files.size() > 1) return unexpected(model_error(asked.files[1], "is a second file; an ONNX model is one file"));
  if (!asked.names.empty())
    return unexpected(
        model_error(asked.files[0], "names of layers come from the nodes of an ONNX model: leave out the list of names"));
  const auto& file = asked.files[0];
  const auto bytes = read_file(file);
  if (!bytes) return unexpected(model_error(file, bytes.error().text));
  const auto m = onnx::parse_model({static_cast<const std::uint8_t*>(bytes->data.get()), bytes->bytes});
  if (!m) return unexpected(model_error(file, m.error().text));
  return onnx::import_graph(*m, file);
}

expected<exported_model, diagnostics> write_onnx(const prepared_job& j, const named_tensors& weights, const export_request& asked) {
  auto made = onnx::export_job(j, weights, asked.names);
  if (!made) return unexpected(std::move(made).error());
  auto bytes = onnx::model_bytes(made->model);
  if (!bytes) return unexpected(model_error({}, bytes.error().text));
  return exported_model{{{".onnx", *std::move(bytes)}}, std::move(made->notes)};
}

}  // namespace

model_format onnx_format() {
  return {"onnx", "ONNX models, operator sets 7 to 17, with their weights", {".onnx"}, read_onnx, write_onnx};
}

}  // namespace troupe
