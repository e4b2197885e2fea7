#include "runtime/node/models/onnx/onnx_format.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include "runtime/node/models/onnx/onnx_export.hpp"
#include "runtime/node/models/onnx/onnx_import.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// The files of external tensors, all in the folder of the model.
class files_beside {
 public:
  explicit files_beside(const std::string& model) : folder_(fs::absolute(model).parent_path()) {}

  expected<std::span<const std::uint8_t>> operator()(const std::string& location) {
    const auto known = known_.find(location);
    const auto found = known == known_.end() ? load(location) : expected<const file_bytes*>(known->second);
    if (!found) return unexpected(found.error());
    known_.emplace(location, *found);
    return std::span(static_cast<const std::uint8_t*>((*found)->data.get()), (*found)->bytes);
  }

 private:
  // Links are followed, and must stay in the folder, too.
  expected<const file_bytes*> load(const std::string& location) {
    std::error_code wrong;
    const fs::path given(location);
    const auto home = fs::canonical(folder_, wrong), place = wrong ? fs::path() : fs::canonical(folder_ / given, wrong);
    if (given.is_absolute() || std::find(given.begin(), given.end(), "..") != given.end())
      return unexpected(error("a file of values must be in the folder of the model"));
    if (wrong) return unexpected(error("there is no such file beside the model; copy it there"));
    if (const auto from = place.lexically_relative(home); from.empty() || *from.begin() == "..")
      return unexpected(error("the file is a link that leads out of the folder of the model"));
    if (!fs::is_regular_file(place, wrong)) return unexpected(error("it is no regular file"));
    if (const auto same = read_.find(place.string()); same != read_.end()) return &same->second;
    auto bytes = read_file(place.string());
    if (!bytes) return unexpected(bytes.error());
    return &read_.emplace(place.string(), *std::move(bytes)).first->second;
  }

  fs::path folder_;
  std::map<std::string, file_bytes> read_;          // by their canonical paths: "w" and "./w" are one file
  std::map<std::string, const file_bytes*> known_;  // by their spellings
};

expected<imported_model, diagnostics> read_onnx(const import_request& asked) {
  if (asked.files.size() > 1) return unexpected(model_error(asked.files[1], "is a second file; an ONNX model is one file"));
  if (!asked.names.empty())
    return unexpected(
        model_error(asked.files[0], "names of layers come from the nodes of an ONNX model: leave out the list of names"));
  const auto& file = asked.files[0];
  const auto bytes = read_file(file);
  if (!bytes) return unexpected(model_error(file, bytes.error().text));
  files_beside beside(file);
  const auto m = onnx::parse_model({static_cast<const std::uint8_t*>(bytes->data.get()), bytes->bytes}, std::ref(beside));
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
  return {"onnx", "ONNX models, operator sets 7 to 21, with their weights", {".onnx"}, read_onnx, write_onnx};
}

}  // namespace troupe
