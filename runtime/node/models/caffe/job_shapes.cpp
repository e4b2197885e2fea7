#include "runtime/node/models/caffe/job_shapes.hpp"

#include <algorithm>

#include "runtime/node/config/table_reader.hpp"

namespace troupe::caffe {
namespace {

// The options of the layer type among the keys, checked; none: they are wrong, which the job's
// check reports.
std::optional<options> options_of(const job_layer& l, const layer_type& type) {
  std::string text;
  for (const auto& [key, value] : l.keys) {
    const auto is_key = [&k = key](const option_spec& s) { return s.name == k; };
    if (std::any_of(type.specs.begin(), type.specs.end(), is_key)) text += key + " = " + value + "\n";
  }
  const auto table = parse_document(text, "");
  if (!table) return std::nullopt;
  diagnostics wrong;
  table_reader r(*table, "", {}, wrong);
  auto o = r.rest(type.specs);
  return wrong.empty() ? std::optional(std::move(o)) : std::nullopt;
}

}  // namespace

void job_shapes::set_example(const std::vector<std::int64_t>& extents) {
  if (extents.empty() || std::ssize(extents) >= shape::max_rank) return;
  shape s{1};
  for (const auto e : extents) s.push_back(e);
  known_["data"] = s;
}

std::vector<std::int64_t> job_shapes::of(const std::string& tensor) {
  for (; next_ < layers_.size(); ++next_) add(layers_[next_]);
  const auto at = known_.find(tensor);
  std::vector<std::int64_t> extents;
  for (int k = 1; at != known_.end() && k < at->second.rank(); ++k) extents.push_back(at->second[k]);
  return extents;
}

void job_shapes::add(const job_layer& l) {
  const auto* type = stock_.find(l.type);
  shapes in;
  for (const auto& i : l.inputs) {
    const auto at = known_.find(i);
    if (at == known_.end()) return;
    in.push_back(at->second);
  }
  const auto given = type ? options_of(l, *type) : std::nullopt;
  if (!given) return;
  try {
    const auto out = type->make(*given)->infer(in);
    for (std::size_t k = 0; k < out.size(); ++k) known_[k == 0 ? l.name : l.name + "." + std::to_string(k)] = out[k];
  } catch (const shape_error&) {  // the job's check reports it
  } catch (const option_error&) {
  }
}

}  // namespace troupe::caffe
