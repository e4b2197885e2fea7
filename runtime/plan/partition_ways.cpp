#include "runtime/plan/partition_ways.hpp"

#include <algorithm>

namespace troupe {

bool all_are(const std::vector<distribution>& list, distribution d) {
  return std::all_of(list.begin(), list.end(), [d](distribution x) { return x == d; });
}

namespace {

// The signature with these inputs and outputs, if the layer supports it.
std::optional<signature> supports(const graph_layer& l, distribution inputs, distribution outputs = distribution::split_1) {
  for (auto& s : l.maths->supported())
    if (all_are(s.inputs, inputs) && all_are(s.outputs, outputs)) return s;
  return std::nullopt;
}

}  // namespace

bool keeps_features(const graph_layer& l) { return supports(l, distribution::split_1).has_value(); }
bool splits_features(const graph_layer& l) { return keeps_features(l) || supports(l, distribution::broadcast); }
std::optional<signature> adds_inputs(const graph_layer& l) {
  if (l.inputs.size() != 1 || l.out.size() != 1) return std::nullopt;
  return supports(l, distribution::split_1, distribution::partial);
}

std::int64_t features_of(const shape& s) { return s.rank() >= 2 ? s[1] : 1; }

feature_range scaled(feature_range r, std::int64_t from, std::int64_t to) {
  if (r.whole()) return r;
  return {r.begin * to / from, r.end * to / from};
}

}  // namespace troupe
