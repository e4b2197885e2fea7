#include "runtime/model/shape_bounds.hpp"

#include <memory>
#include <vector>

namespace troupe {

bool sane(const shape& s) {
  std::int64_t n = 1;
  for (int i = 0; i < s.rank(); ++i) {
    if (s[i] <= 0 || s[i] > max_extent || n > max_elements / s[i]) return false;
    n *= s[i];
  }
  return true;
}

void check_numbers(const options& o) {
  for (const auto& [key, value] : o.values) {
    const auto check = [&k = key](std::int64_t v) {
      if (v < -max_extent || v > max_extent)
        throw option_error(k, "option '" + k + "' must be at most " + std::to_string(max_extent) + ", not " + std::to_string(v));
    };
    if (const auto* one = std::get_if<std::int64_t>(&value)) check(*one);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
      for (auto v : *list) check(v);
    if (const auto* table = std::get_if<std::shared_ptr<options>>(&value); table && *table) check_numbers(**table);
  }
}

}  // namespace troupe
