#include "runtime/node/models/model_format.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "runtime/node/models/caffe/caffe_format.hpp"
#include "runtime/node/models/onnx/onnx_format.hpp"
#include "runtime/node/models/torch/torch_weights.hpp"

namespace troupe {
namespace {

// Net files (runtime/node/predict/net_file.hpp), which programs that predict read.
model_format net_format() {
  const auto write = [](const prepared_job& j, const named_tensors& weights,
                        const export_request& asked) -> expected<exported_model, diagnostics> {
    auto bytes = net_file_bytes(j, weights, asked.kept);
    if (!bytes) return unexpected(std::move(bytes).error());
    return exported_model{{{".troupe", *std::move(bytes)}}, {}};
  };
  return {"troupe", "a net for predictions, with all that they need", {".troupe"}, {}, write};
}

}  // namespace

const std::vector<model_format>& model_formats() {
  static const std::vector<model_format> all{net_format(), onnx_format(), caffe_format(), torch_format()};
  return all;
}

const model_format* format_of_extension(const std::string& extension) {
  for (const auto& f : model_formats())
    if (std::find(f.extensions.begin(), f.extensions.end(), extension) != f.extensions.end()) return &f;
  return nullptr;
}

diagnostics model_error(const std::string& file, const std::string& what) {
  diagnostics d(1);
  d[0].at.file = file;
  d[0].message = what;
  return d;
}

expected<name_pairs, diagnostics> parse_names(const std::string& text, const std::string& file) {
  name_pairs pairs;
  diagnostics wrong;
  std::set<std::string> theirs, ours;
  std::istringstream lines(text);
  std::string line;
  for (int n = 1; std::getline(lines, line); ++n) {
    std::istringstream words(line);
    std::string a, b, rest;
    if (!(words >> a) || a[0] == '#') continue;
    const source_position at{file, n, 1};
    if (!(words >> b) || words >> rest)
      wrong.push_back({at, "a line has two names: the other program's and Troupe's, as in `features.0.weight conv1.weight`"});
    else if (!theirs.insert(a).second)
      wrong.push_back({at, "'" + a + "' is already on a line above"});
    else if (!ours.insert(b).second)
      wrong.push_back({at, "'" + b + "' is already on a line above"});
    else
      pairs.emplace_back(std::move(a), std::move(b));
  }
  if (!wrong.empty()) return unexpected(std::move(wrong));
  return pairs;
}

}  // namespace troupe
