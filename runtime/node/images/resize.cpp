#include "runtime/node/images/resize.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::images {
namespace {

// The inputs of an output pixel: in[first + k] * weight[k].
struct taps {
  std::int64_t first = 0;
  std::vector<double> weight;  // sums to 1
};

std::vector<taps> taps_of(std::int64_t from, std::int64_t to) {
  const double factor = static_cast<double>(from) / static_cast<double>(to), radius = std::max(factor, 1.0);
  std::vector<taps> out(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    auto& t = out[static_cast<std::size_t>(i)];
    const double centre = (static_cast<double>(i) + 0.5) * factor;
    t.first = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(centre - radius)), 0, from - 1);
    const auto end = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(centre + radius)), t.first + 1, from);
    double sum = 0;
    for (auto k = t.first; k < end; ++k) {
      t.weight.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(k) + 0.5 - centre) / radius));
      sum += t.weight.back();
    }
    for (auto& w : t.weight) w /= sum;
  }
  return out;
}

// Resizes one input row to the output's width.
void stretch_row(const std::uint8_t* in, int channels, const std::vector<taps>& columns, double* out) {
  for (const auto& t : columns)
    for (int c = 0; c < channels; ++c) {
      double sum = 0;
      const auto* p = in + t.first * channels + c;
      for (double w : t.weight) {
        sum += w * *p;
        p += channels;
      }
      *out++ = sum;
    }
}

}  // namespace

image resized(const image& in, std::int64_t height, std::int64_t width) {
  if (in.height == height && in.width == width) return in;
  const auto columns = taps_of(in.width, width), rows = taps_of(in.height, height);
  const auto wide = static_cast<std::size_t>(width * in.channels);
  image out{height, width, in.channels, std::vector<std::uint8_t>(wide * static_cast<std::size_t>(height))};
  std::vector<double> row(wide), sum(wide);
  auto* to = out.bytes.data();
  for (const auto& t : rows) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::size_t k = 0; k < t.weight.size(); ++k) {
      const auto y = t.first + static_cast<std::int64_t>(k);
      stretch_row(in.bytes.data() + y * in.width * in.channels, in.channels, columns, row.data());
      for (std::size_t i = 0; i < wide; ++i) sum[i] += t.weight[k] * row[i];
    }
    for (double v : sum) *to++ = static_cast<std::uint8_t>(std::clamp(std::floor(v + 0.5), 0.0, 255.0));
  }
  return out;
}

}  // namespace troupe::images
