#include "runtime/reduce/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/bf16.hpp"
#include "ops/device.hpp"
#include "runtime/messages/bucket_finder.hpp"

namespace troupe {
namespace {

// Counts of all buckets, while one tensor is read.
class bucket_counts {
 public:
  void add(double v) {
    if (!std::isfinite(v)) return void(++all_.not_finite);
    all_.min = std::min(all_.min, v);
    all_.max = std::max(all_.max, v);
    all_.zeros += v == 0 ? 1 : 0;
    all_.sum += v;
    all_.sum_squares += v * v;
    ++counts_[bucket_(v)];
  }
  value_histogram result(std::uint64_t count) && {
    all_.count = count;
    if (all_.not_finite == count) all_.min = all_.max = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] > 0) all_.buckets.emplace_back(static_cast<std::uint16_t>(i), counts_[i]);
    return std::move(all_);
  }

 private:
  static value_histogram empty() {
    value_histogram h;
    h.min = std::numeric_limits<double>::infinity();
    h.max = -h.min;
    return h;
  }

  const bucket_finder& bucket_ = shared_bucket_finder();
  value_histogram all_ = empty();
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(histogram_limits().size(), 0);
};

}  // namespace

value_histogram count_values(const tensor& t, double scale) {
  bucket_counts all;
  const auto n = static_cast<std::size_t>(t.count());
  const auto each = [&](const auto* values, auto&& number) {
    for (std::size_t i = 0; i < n; ++i) all.add(number(values[i]) * scale);
  };
  const auto same = [](auto v) { return static_cast<double>(v); };
  if (!t.backed()) return {};
  switch (t.type()) {
    case dtype::f32: each(static_cast<const float*>(t.raw()), same); break;
    case dtype::f64: each(static_cast<const double*>(t.raw()), same); break;
    case dtype::bf16: each(static_cast<const bf16*>(t.raw()), to_float); break;
    default: return {};
  }
  return std::move(all).result(n);
}

void value_counter::take(device& d, const tensor& t, double scale) {
  if (!t.backed()) return;
  scale_ = scale;
  if (&d.host() == &d && t.space().host()) return void(result_ = count_values(t, scale));
  fetched_ = tensor::allocate(d.host(), t.dims(), t.type());
  d.fetch(t, fetched_);
}

void value_counter::finish() {
  if (const auto values = std::exchange(fetched_, {})) result_ = count_values(values, scale_);
}

}  // namespace troupe
