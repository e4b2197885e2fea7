#include "ops/filler.hpp"

#include <algorithm>
#include <cmath>

#include "ops/device.hpp"
#include "ops/option_specs.hpp"

namespace troupe {

std::vector<std::string> filler_kinds() { return {"constant", "uniform", "gaussian", "xavier", "msra", "bilinear"}; }

option_specs filler_options(const std::string& kind) {
  if (kind == "constant") return {real_option("value", 0.0, "value of every element")};
  if (kind == "uniform") return {real_option("min", 0.0, "lower bound"), real_option("max", 1.0, "upper bound")};
  if (kind == "gaussian") return {real_option("mean", 0.0, "mean"), real_option("std", 1.0, "standard deviation", 0.0)};
  if (kind == "bilinear") return {};
  return {choice_option("norm", {"fan_in", "fan_out", "average"},
                        "fan that the variance is divided by: inputs, outputs, or their mean")};
}

filler_spec filler_from(const options& table, const std::string& fallback) {
  filler_spec spec;
  spec.kind = fallback;
  options rest = table;
  if (auto i = rest.values.find("kind"); i != rest.values.end()) {
    option_spec kind = choice_option("kind", filler_kinds(), "");
    spec.kind = check_options(options{{{"kind", i->second}}}, {kind}).text("kind");
    rest.values.erase(i);
  }
  spec.values = check_options(rest, filler_options(spec.kind));
  return spec;
}

namespace {

double fan(const param_spec& p, const options& values) {
  const auto count = static_cast<double>(p.dims.count());
  const double in = p.dims.rank() > 0 ? count / static_cast<double>(p.dims[0]) : 1.0;
  const double out = p.dims.rank() > 1 ? count / static_cast<double>(p.dims[1]) : in;
  const std::string& norm = values.text("norm");
  return norm == "fan_in" ? in : norm == "fan_out" ? out : (in + out) / 2;
}

// The weight of position k of n, of a deconvolution that enlarges an image linearly.
double tent(std::int64_t k, std::int64_t n) {
  const auto half = static_cast<double>((n + 1) / 2);
  const double centre = static_cast<double>(n - 1) / (2 * half);
  return 1 - std::abs(static_cast<double>(k) / half - centre);
}

// The last two axes are those of the kernel.
void fill_bilinear(device& d, tensor& t) {
  const shape& s = t.dims();
  const auto rows = s.rank() > 1 ? s[s.rank() - 2] : 1, columns = s.rank() > 0 ? s[s.rank() - 1] : 1;
  std::vector<float> values(static_cast<std::size_t>(s.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    values[i] = static_cast<float>(tent(at / columns % rows, rows) * tent(at % columns, columns));
  }
  tensor whole = tensor::allocate(d, s, dtype::f32);
  d.upload(values.data(), whole);
  d.copy(whole, t);
}

}  // namespace

void fill_param(device& d, const param_spec& p, std::uint64_t seed, std::uint32_t layer, std::uint32_t param, tensor& t) {
  t.back(d);
  const std::string& kind = p.filler.kind;
  const options v = check_options(p.filler.values, filler_options(kind));
  // Dropout streams have b = layer index. The top bit keeps filler streams distinct from them.
  const rng_stream stream{.key = seed, .a = layer, .b = 0x80000000U | param};
  if (kind == "bilinear") {
    fill_bilinear(d, t);
  } else if (kind == "constant") {
    d.fill(v.real("value"), t);
  } else if (kind == "uniform") {
    d.fill_uniform(stream, v.real("min"), v.real("max"), t);
  } else if (kind == "gaussian") {
    d.fill_gaussian(stream, v.real("mean"), v.real("std"), t);
  } else if (kind == "xavier") {
    const double s = std::sqrt(3.0 / fan(p, v));
    d.fill_uniform(stream, -s, s, t);
  } else {
    d.fill_gaussian(stream, 0.0, std::sqrt(2.0 / fan(p, v)), t);
  }
  if (p.zero_row < 0) return;
  const auto each = p.dims.count_from(1);
  tensor row = t.slice(p.zero_row * each, shape{each});
  d.fill(0.0, row);
}

}  // namespace troupe
