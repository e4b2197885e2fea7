// Finds the bucket of a value (value_histogram.hpp) without a search, in a few nanoseconds. The
// first 16 bits of a positive double (sign, exponent, four bits of the mantissa) select an interval
// of values that differ by at most 6.25 %. As limits differ by 10 %, it has at most two: its
// smallest value and one more.
// Errors: none. Threads: a constant.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace troupe {

class bucket_finder {
 public:
  bucket_finder() {
    for (double v = 1.0e-12; v < 1.0e20; v *= 1.1) limits_.push_back(v);
    limits_.push_back(std::numeric_limits<double>::max());
    below_.resize(0x8000);
    for (std::size_t i = 0; i < below_.size(); ++i) {
      const auto smallest = std::bit_cast<double>(std::uint64_t{i} << 48);  // of the last intervals: not finite
      below_[i] = static_cast<std::uint16_t>(std::lower_bound(limits_.begin(), limits_.end(), smallest) - limits_.begin());
    }
    count_ = limits_.size();
    limits_.resize(count_ + 2, std::numeric_limits<double>::infinity());
  }
  std::size_t positive_limits() const { return count_; }
  double positive_limit(std::size_t i) const { return limits_[i]; }

  std::size_t operator()(double finite) const {
    const bool negative = finite < 0;
    const double size = std::abs(finite);
    std::size_t i = below_[std::bit_cast<std::uint64_t>(size) >> 48];  // limits below `size`; of a positive value, also equal ones
    i += (limits_[i] < size) | ((limits_[i] == size) & !negative);
    i += (limits_[i] < size) | ((limits_[i] == size) & !negative);
    return negative ? count_ - i : count_ + 1 + std::min(i, count_ - 1);
  }

 private:
  std::vector<double> limits_;        // above 0, ascending; then two infinities
  std::vector<std::uint16_t> below_;  // by the first 16 bits: number of limits below the interval
  std::size_t count_ = 0;
};

inline const bucket_finder& shared_bucket_finder() {
  static const bucket_finder one;
  return one;
}

}  // namespace troupe
