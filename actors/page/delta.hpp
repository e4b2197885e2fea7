// Differences of JSON objects as merge patches (RFC 7386): a member that is null is removed, an
// object is merged, every other value replaces the former one. Pure.
#pragma once

#include <nlohmann/json.hpp>

namespace troupe {

// The patch that turns `from` into `to`: nlohmann::json::merge_patch applies it. Both are objects
// without null values. Empty if they are equal.
nlohmann::json delta_of(const nlohmann::json& from, const nlohmann::json& to);

}  // namespace troupe
