#include "runtime/messages/value_histogram.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/base/number_text.hpp"
#include "runtime/messages/bucket_finder.hpp"

namespace troupe {
namespace {

constexpr double largest = std::numeric_limits<double>::max();

std::string limit_text(double limit) {
  if (limit == largest) return "<inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), limit, std::chars_format::general, 4).ptr;
  return "<" + std::string(text.data(), end);
}

// The limit whose text is "<" + `text`; nullopt if there is none.
std::optional<std::uint16_t> limit_of(const std::string& text) {
  const auto& all = histogram_limits();
  if (text == "inf") return static_cast<std::uint16_t>(all.size() - 1);
  double v = 0;
  if (!read_number(text, v) || !std::isfinite(v)) return std::nullopt;
  // Limits differ by 10 %, and the text by at most 0.05 % from its limit.
  const auto at = std::lower_bound(all.begin(), all.end(), v - 1e-3 * std::abs(v));
  if (at == all.end() || std::abs(*at - v) > 1e-3 * std::abs(v)) return std::nullopt;
  return static_cast<std::uint16_t>(at - all.begin());
}

// Returns false if `name` is no number of a histogram.
bool set_number(value_histogram& h, const std::string& name, double v) {
  const auto whole = [v](std::uint64_t& to) { return to = v > 0 && v < 0x1p63 ? static_cast<std::uint64_t>(v) : 0, true; };
  if (name == "count") return whole(h.count);
  if (name == "zeros") return whole(h.zeros);
  if (name == "not_finite") return whole(h.not_finite);
  if (name == "min") return h.min = v, true;
  if (name == "max") return h.max = v, true;
  if (name == "sum") return h.sum = v, true;
  if (name == "sum_squares") return h.sum_squares = v, true;
  return false;
}

}  // namespace

const std::vector<double>& histogram_limits() {
  static const std::vector<double> all = [] {
    std::vector<double> list;
    const auto& up = shared_bucket_finder();
    for (auto i = up.positive_limits(); i > 0; --i) list.push_back(-up.positive_limit(i - 1));
    list.push_back(0);
    for (std::size_t i = 0; i < up.positive_limits(); ++i) list.push_back(up.positive_limit(i));
    return list;
  }();
  return all;
}

std::size_t bucket_of(double v) { return shared_bucket_finder()(v); }

void add(value_histogram& to, const value_histogram& more) {
  if (more.count > more.not_finite) {
    const bool some = to.count > to.not_finite;
    to.min = some ? std::min(to.min, more.min) : more.min;
    to.max = some ? std::max(to.max, more.max) : more.max;
  }
  to.count += more.count;
  to.zeros += more.zeros;
  to.not_finite += more.not_finite;
  to.sum += more.sum;
  to.sum_squares += more.sum_squares;
  decltype(to.buckets) both;
  auto a = to.buckets.begin();
  for (const auto& b : more.buckets) {
    for (; a != to.buckets.end() && a->first < b.first; ++a) both.push_back(*a);
    both.push_back(b);
    if (a != to.buckets.end() && a->first == b.first) both.back().second += (a++)->second;
  }
  both.insert(both.end(), a, to.buckets.end());
  to.buckets = std::move(both);
}

bool sound(const value_histogram& h, std::uint64_t count) {
  if (h.count != count || h.not_finite > count || h.zeros > count) return false;
  std::uint64_t left = count - h.not_finite;
  std::optional<std::uint16_t> last;
  for (const auto& [index, n] : h.buckets) {
    if (index >= histogram_limits().size() || (last && index <= *last) || n == 0 || n > left) return false;
    left -= n;
    last = index;
  }
  // Sums of f64 values may overflow.
  return left == 0 && std::isfinite(h.min) && std::isfinite(h.max) && h.min <= h.max;
}

std::vector<std::pair<std::string, double>> histogram_values(const value_histogram& h) {
  const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
  std::vector<std::pair<std::string, double>> list = {{"count", number(h.count)},
                                                      {"zeros", number(h.zeros)},
                                                      {"not_finite", number(h.not_finite)},
                                                      {"min", h.min},
                                                      {"max", h.max},
                                                      {"sum", h.sum},
                                                      {"sum_squares", h.sum_squares}};
  for (const auto& [index, n] : h.buckets) list.emplace_back(limit_text(histogram_limits()[index]), number(n));
  return list;
}

std::optional<value_histogram> histogram_of(const std::vector<std::pair<std::string, double>>& values) {
  value_histogram h;
  bool counted = false;
  for (const auto& [name, v] : values) {
    counted = counted || name == "count";
    if (set_number(h, name, v) || !name.starts_with("<")) continue;
    const auto index = limit_of(name.substr(1));
    const bool ascends = index && (h.buckets.empty() || h.buckets.back().first < *index);
    if (!ascends || !(v >= 1) || v >= 0x1p63) return std::nullopt;
    h.buckets.emplace_back(*index, static_cast<std::uint64_t>(v));
  }
  return counted ? std::optional(std::move(h)) : std::nullopt;
}

}  // namespace troupe
