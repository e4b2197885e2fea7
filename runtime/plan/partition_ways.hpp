// How a layer may be cut, as its signatures say (ops/layer.hpp). For partition*.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/plan/partition.hpp"

namespace troupe {

bool all_are(const std::vector<distribution>& list, distribution d);

// Each part of the inputs makes the same part of the outputs.
bool keeps_features(const graph_layer& l);
bool splits_features(const graph_layer& l);
// Each part of the input makes an addend of the output.
std::optional<signature> adds_inputs(const graph_layer& l);

std::int64_t features_of(const shape& s);
feature_range scaled(feature_range r, std::int64_t from, std::int64_t to);

}  // namespace troupe
