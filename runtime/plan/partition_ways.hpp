// The ways in which a layer can be split, by its signatures (ops/layer.hpp). For partition*.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/plan/partition.hpp"

namespace troupe {

bool all_are(const std::vector<distribution>& list, distribution d);

// Part k of the inputs determines part k of the outputs.
bool keeps_features(const graph_layer& l);
bool splits_features(const graph_layer& l);
// Each part of the input yields an addend of the output.
std::optional<signature> adds_inputs(const graph_layer& l);

std::int64_t features_of(const shape& s);
feature_range scaled(feature_range r, std::int64_t from, std::int64_t to);

}  // namespace troupe
