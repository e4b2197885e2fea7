// The median of a few numbers. Of an even number there are two: the lower and the upper one.
// Threads: functions without state. Errors: none; the list must not be empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace troupe {

inline double nth_smallest(std::vector<double> values, std::size_t n) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}
inline double lower_median(const auto& values) { return nth_smallest({values.begin(), values.end()}, (values.size() - 1) / 2); }
inline double upper_median(const auto& values) { return nth_smallest({values.begin(), values.end()}, values.size() / 2); }

}  // namespace troupe
