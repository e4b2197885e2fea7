// Normalisation by channel: against sums in f64, on every instruction set; as one call and in
// steps, at any address.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::empty;
using test::gaussian;
using test::tensor_of;
using test::values_of;

constexpr norm_geometry geometries[] = {
    {.outer = 5, .mid = 3, .inner = 7},    {.outer = 1, .mid = 2, .inner = 3},  {.outer = 9, .mid = 19, .inner = 1},
    {.outer = 40, .mid = 1, .inner = 1},   {.outer = 3, .mid = 5, .inner = 64}, {.outer = 70, .mid = 3, .inner = 49},
    {.outer = 2, .mid = 2, .inner = 5000}, {.outer = 1, .mid = 1, .inner = 2},  {.outer = 130, .mid = 4, .inner = 1024}};

std::vector<norm_geometry> all_geometries() {
  std::vector<norm_geometry> all;
  for (auto g : geometries)
    for (const bool rectified : {false, true}) {
      g.epsilon = 1e-3, g.rectified = rectified;
      all.push_back(g);
    }
  return all;
}

std::string name_of(const norm_geometry& g) {
  return std::to_string(g.outer) + "x" + std::to_string(g.mid) + "x" + std::to_string(g.inner) + (g.rectified ? " rectified" : "");
}

struct reference {
  std::vector<double> mean, variance, y, dx, sum, product;
  reference(const norm_geometry& g, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
            const std::vector<double>& dy)
      : y(x.size()), dx(x.size()) {
    const double n = static_cast<double>(g.outer * g.inner);
    for (std::int64_t m = 0; m < g.mid; ++m) {
      const auto each = [&](auto f) {
        for (std::int64_t o = 0; o < g.outer; ++o)
          for (std::int64_t i = 0; i < g.inner; ++i) f(static_cast<std::size_t>((o * g.mid + m) * g.inner + i));
      };
      const auto c = static_cast<std::size_t>(m);
      double mu = 0, v = 0, s = 0, p = 0;
      each([&](std::size_t at) { mu += x[at] / n; });
      each([&](std::size_t at) { v += (x[at] - mu) * (x[at] - mu) / n; });
      const double r = 1 / std::sqrt(v + g.epsilon);
      const auto counted = [&](std::size_t at) { return g.rectified && y[at] <= 0 ? 0.0 : dy[at]; };
      each([&](std::size_t at) {
        y[at] = (x[at] - mu) * r * w[c] + b[c];
        if (g.rectified && y[at] < 0) y[at] = 0;
        s += counted(at), p += counted(at) * (x[at] - mu) * r;
      });
      each([&](std::size_t at) { dx[at] = w[c] * r * (counted(at) - s / n - (x[at] - mu) * r * p / n); });
      mean.push_back(mu), variance.push_back(v), sum.push_back(s), product.push_back(p);
    }
  }
};

void near(const tensor& got, const std::vector<double>& want, double allowed, const std::string& what) {
  double most = 1e-30, worst = 0;
  const auto values = values_of<double>(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(want[i]));
    worst = std::max(worst, std::abs(values[i] - want[i]));
  }
  EXPECT_LE(worst, allowed * std::max(most, 1e-6)) << what;
}

tensor as(device& d, dtype t, const tensor& x) {
  tensor y = empty(d, x.dims(), t);
  d.copy(x, y);
  return y;
}

class pass {
 public:
  tensor x, w, b, dy, variance, table, y, sums, dx;
  pass(device& d, const norm_geometry& g, dtype t) : d_(d), g_(g) {
    const shape whole{g.outer, g.mid, g.inner}, row{g.mid};
    x = as(d, t, gaussian(d, whole, 1)), dy = as(d, t, gaussian(d, whole, 2));
    w = as(d, t, gaussian(d, row, 3)), b = as(d, t, gaussian(d, row, 4));
    variance = empty(d, row, t), table = empty(d, shape{4, g.mid}, t), sums = empty(d, shape{2, g.mid}, t);
    y = empty(d, whole, t), dx = empty(d, whole, t);
  }
  void whole() {
    d_.norm_forward(g_, x, w, b, variance, table, y);
    d_.norm_backward(g_, x, table, dy, sums, dx);
  }
  void parts() {
    tensor mean = empty(d_, shape{g_.mid}, x.type());
    d_.moments(g_.outer, g_.mid, g_.inner, x, mean, variance);
    d_.norm_table(g_, mean, variance, w, b, table);
    d_.norm_apply(g_, x, table, y);
    d_.norm_sums(g_, x, table, dy, sums);
    d_.norm_slope(g_, x, table, sums, static_cast<double>(g_.outer * g_.inner), dy, dx);
  }

 private:
  device& d_;
  norm_geometry g_;
};

TEST(norm, agrees_with_sums_in_f64) {
  for (const auto& d : test::all_devices())
    for (const auto& g : all_geometries())
      for (const dtype t : {dtype::f32, dtype::f64}) {
        pass p(*d, g, t);
        p.whole();
        const auto list = [&](const tensor& v) { return values_of<double>(as(*d, dtype::f64, v)); };
        const reference want(g, list(p.x), list(p.w), list(p.b), list(p.dy));
        const double allowed = t == dtype::f32 ? 1e-5 : 1e-12;
        const auto what = name_of(g) + " " + d->numerics_id();
        near(as(*d, dtype::f64, p.variance), want.variance, allowed, "variance " + what);
        near(as(*d, dtype::f64, p.table.slice(0, shape{g.mid})), want.mean, allowed, "mean " + what);
        near(as(*d, dtype::f64, p.y), want.y, allowed, "y " + what);
        near(as(*d, dtype::f64, p.sums.slice(0, shape{g.mid})), want.sum, 10 * allowed, "sum " + what);
        near(as(*d, dtype::f64, p.sums.slice(g.mid, shape{g.mid})), want.product, 10 * allowed, "product " + what);
        near(as(*d, dtype::f64, p.dx), want.dx, 10 * allowed, "dx " + what);
      }
}

TEST(norm, one_call_and_its_parts_give_the_same_bits) {
  for (const auto& d : test::all_devices())
    for (const auto& g : all_geometries()) {
      pass p(*d, g, dtype::f32), q(*d, g, dtype::f32);
      p.whole(), q.parts();
      for (auto member : {&pass::variance, &pass::table, &pass::y, &pass::sums, &pass::dx})
        EXPECT_TRUE(same_bits(p.*member, q.*member)) << name_of(g) << " " << d->numerics_id();
    }
}

// Large and aligned results are written with non-temporal stores.
TEST(norm, bits_do_not_depend_on_tensor_addresses) {
  const norm_geometry g{.outer = 130, .mid = 4, .inner = 1024, .epsilon = 1e-5, .rectified = true};
  for (const auto& d : test::all_devices()) {
    pass p(*d, g, dtype::f32), q(*d, g, dtype::f32);
    for (auto member : {&pass::x, &pass::y, &pass::dy, &pass::dx}) {
      const tensor before = q.*member;
      q.*member = empty(*d, shape{before.count() + 3}, dtype::f32).slice(3, before.dims());
      d->copy(p.*member, q.*member);
    }
    p.whole(), q.whole();
    EXPECT_TRUE(same_bits(p.y, q.y) && same_bits(p.dx, q.dx)) << d->numerics_id();
  }
}

// One pass over x without cancellation: neither for a mean far from zero, nor for a first element
// far from the mean, nor for examples that differ from each other.
TEST(norm, one_pass_moments_are_as_accurate_as_two_passes) {
  const norm_geometry g{.outer = 60, .mid = 1, .inner = 300};
  for (const auto& d : test::all_devices())
    for (const double mean : {0.0, 1e4, -3e5})
      for (const double first : {0.0, 1e6})
        for (const double drift : {0.0, 50.0}) {
          auto values = values_of<double>(gaussian(*d, shape{g.outer * g.inner}, 9));
          for (std::size_t i = 0; i < values.size(); ++i) values[i] += mean + drift * std::floor(static_cast<double>(i) / 300);
          values[0] += first;
          const tensor x = as(*d, dtype::f32, tensor_of(*d, shape{g.outer, 1, g.inner}, values));
          const auto rounded = values_of<double>(as(*d, dtype::f64, x));
          const reference want(g, rounded, {1}, {0}, rounded);
          tensor mu = empty(*d, shape{1}, dtype::f32), v = empty(*d, shape{1}, dtype::f32);
          d->moments(g.outer, 1, g.inner, x, mu, v);
          const auto what = "mean " + std::to_string(mean) + " first " + std::to_string(first) + " drift " + std::to_string(drift);
          EXPECT_NEAR(static_cast<double>(v.data<float>()[0]), want.variance[0], 4e-6 * want.variance[0]) << what;
          EXPECT_NEAR(static_cast<double>(mu.data<float>()[0]), want.mean[0],
                      2e-7 * (std::abs(want.mean[0]) + std::sqrt(want.variance[0])))
              << what;
        }
}

TEST(norm, nan_affects_its_whole_channel_and_no_other) {
  const norm_geometry g{.outer = 4, .mid = 2, .inner = 40, .epsilon = 1e-5, .rectified = true};
  for (const auto& d : test::all_devices()) {
    pass p(*d, g, dtype::f32);
    p.x.mutable_data<float>()[45] = std::nanf("");  // channel 1
    d->norm_forward(g, p.x, p.w, p.b, p.variance, p.table, p.y);
    for (std::int64_t i = 0; i < p.y.count(); ++i) EXPECT_EQ(std::isnan(p.y.data<float>()[i]), i / 40 % 2 == 1) << i;
  }
}

}  // namespace
}  // namespace troupe
