#include "runtime/base/sparkline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace troupe {
namespace {

constexpr std::array<const char*, 8> block_levels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 8> ascii_levels = {"_", ".", "-", "~", "=", "+", "*", "#"};

const char* level(double share, bool blocks) {
  const auto i = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 7.0));
  return (blocks ? block_levels : ascii_levels)[std::min<std::size_t>(i, 7)];
}

}  // namespace

std::string sparkline(const std::vector<double>& values, std::size_t columns, bool blocks) {
  const auto n = std::min(columns, values.size());
  std::vector<double> means;
  for (std::size_t c = 0; c < n; ++c) {
    double sum = 0, count = 0;
    for (auto i = c * values.size() / n; i < (c + 1) * values.size() / n; ++i)
      if (std::isfinite(values[i])) sum += values[i], ++count;
    means.push_back(count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN());
  }
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const auto m : means)
    if (std::isfinite(m)) least = std::min(least, m), most = std::max(most, m);
  std::string line;
  for (const auto m : means) line += !std::isfinite(m) ? " " : level(most > least ? (m - least) / (most - least) : 0.5, blocks);
  return line;
}

std::string bars(const std::vector<double>& heights, bool blocks) {
  const auto most = heights.empty() ? 0 : *std::max_element(heights.begin(), heights.end());
  std::string line;
  for (const auto h : heights) line += h > 0 ? level(h / most, blocks) : " ";
  return line;
}

}  // namespace troupe
