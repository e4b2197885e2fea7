#include "actors/page/delta.hpp"

namespace troupe {

nlohmann::json delta_of(const nlohmann::json& from, const nlohmann::json& to) {
  auto patch = nlohmann::json::object();
  for (const auto& [key, value] : from.items())
    if (!to.contains(key)) patch[key] = nullptr;
  for (const auto& [key, value] : to.items()) {
    const auto before = from.find(key);
    if (before == from.end())
      patch[key] = value;
    else if (before->is_object() && value.is_object()) {
      if (auto inner = delta_of(*before, value); !inner.empty()) patch[key] = std::move(inner);
    } else if (*before != value)
      patch[key] = value;
  }
  return patch;
}

}  // namespace troupe
