#include "runtime/node/models/torch/torch_weights.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

constexpr const char* counter_suffix = ".num_batches_tracked";  // of BatchNorm: no layer of Troupe reads it

expected<imported_model, diagnostics> read_torch(const import_request& asked) {
  if (asked.files.size() > 1) return unexpected(model_error(asked.files[1], "is a second file; weights of PyTorch are one file"));
  auto read = read_safetensors(asked.files[0]);
  if (!read) return unexpected(model_error(asked.files[0], read.error().message));
  std::map<std::string, tensor> theirs;
  for (auto& [name, value] : read->named) theirs.emplace(std::move(name), std::move(value));
  const std::map<std::string, std::string> left_out(read->left_out.begin(), read->left_out.end());
  imported_model made;
  diagnostics wrong;
  for (const auto& [their, our] : asked.names) {
    if (const auto odd = left_out.find(their); odd != left_out.end()) {
      wrong.push_back({source_position{asked.files[0], 0, 0},
                       "tensor '" + their + "' is " + odd->second + ", but weights are floats: save it as float32"});
      continue;
    }
    const auto found = theirs.find(their);
    if (found == theirs.end()) {
      wrong.push_back({source_position{asked.files[0], 0, 0}, "there is no tensor '" + their + "', which the list of names has"});
      continue;
    }
    made.weights.emplace_back(our, std::move(found->second));
    theirs.erase(found);
  }
  for (auto& [name, value] : theirs) {
    if (name.ends_with(counter_suffix) || !asked.names.empty()) {
      made.notes.push_back("left out: " + name);
      continue;
    }
    made.weights.emplace_back(name, std::move(value));
  }
  for (const auto& [name, dtype] : left_out) made.notes.push_back("left out: " + name + " (" + dtype + ", weights are floats)");
  if (!wrong.empty()) return unexpected(std::move(wrong));
  if (made.weights.empty()) return unexpected(model_error(asked.files[0], "it has no tensors that are weights"));
  return made;
}

expected<exported_model, diagnostics> write_torch(const prepared_job&, const named_tensors& weights, const export_request& asked) {
  named_tensors renamed;
  diagnostics wrong;
  std::map<std::string, std::string> their_name;
  for (const auto& [their, our] : asked.names) their_name.emplace(our, their);
  for (const auto& [name, value] : weights) {
    const auto found = their_name.find(name);
    renamed.emplace_back(found == their_name.end() ? name : found->second, value);
    if (found != their_name.end()) their_name.erase(found);
  }
  for (const auto& [our, their] : their_name)
    wrong.push_back(
        {source_position(), "the job has no parameter '" + our + "', which the list of names gives to '" + their + "'"});
  if (!wrong.empty()) return unexpected(std::move(wrong));
  auto bytes = safetensors_bytes(renamed, {{"format", "pt"}});
  if (!bytes) return unexpected(model_error({}, bytes.error().to_string()));
  return exported_model{{{".safetensors", *std::move(bytes)}}, {}};
}

}  // namespace

model_format torch_format() {
  return {"torch", "weights of PyTorch, as safetensors, with a list of names", {".safetensors"}, read_torch, write_torch};
}

}  // namespace troupe
