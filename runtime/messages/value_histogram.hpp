// A histogram of the values of a tensor, in buckets with the fixed limits of TensorFlow and
// TensorBoard: 1e-12 * 1.1^k below 1e20, their negatives, 0, and the largest double. A value v is
// in bucket i if limits[i - 1] <= v < limits[i]. All histograms have the same buckets, so those of
// the blocks of a parameter add exactly: counts, min and max do not depend on how it is cut. `sum`
// and `sum_squares` may differ in their last bits.
// Errors: none; sound() checks a received histogram. Threads: values and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

struct value_histogram {
  std::uint64_t count = 0;       // of all values: those in buckets and those that are not finite
  std::uint64_t zeros = 0;       // values that are exactly 0; they are in a bucket too
  std::uint64_t not_finite = 0;  // infinities and NaN: in no bucket, and not in the four numbers below
  double min = 0, max = 0;       // 0 if no value is finite
  double sum = 0, sum_squares = 0;
  std::vector<std::pair<std::uint16_t, std::uint64_t>> buckets;  // (index, count > 0), indices ascending

  static auto fields(auto& h) { return std::tie(h.count, h.zeros, h.not_finite, h.min, h.max, h.sum, h.sum_squares, h.buckets); }
  friend bool operator==(const value_histogram&, const value_histogram&) = default;
};

// The upper limits of the buckets, ascending.
const std::vector<double>& histogram_limits();
// The bucket of a finite value.
std::size_t bucket_of(double v);

void add(value_histogram& to, const value_histogram& more);

// Returns true if the numbers agree with each other and `count` values have been counted.
bool sound(const value_histogram& h, std::uint64_t count);

// The values of an event "histogram": count, zeros, not_finite, min, max, sum, sum_squares, and for
// each bucket that is not empty "<LIMIT": the number of values below LIMIT and not below the next
// smaller limit. LIMIT has four significant digits, e.g. "<0.001056".
std::vector<std::pair<std::string, double>> histogram_values(const value_histogram& h);
// The reverse; nullopt if the list has no `count` or a malformed bucket. Other names are ignored.
std::optional<value_histogram> histogram_of(const std::vector<std::pair<std::string, double>>& values);

}  // namespace troupe
