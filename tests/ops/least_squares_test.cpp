// Every update rule on a least squares problem with a known solution: |X w - y|^2 / 2 + decay |w|^2
// / 2 with X = U diag(s) V^T, so that w* = V diag(s / (s^2 + decay)) U^T y. For sgd, momentum and
// nesterov also the whole trajectory, from the roots of a quadratic.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>

#include "ops/rule.hpp"
#include "ops/schedule.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::values_of;

constexpr std::size_t rows = 9, columns = 4;
using point = std::array<double, columns>;

// I - 2 v v^T / v^T v: an orthogonal matrix that is its own inverse.
template <std::size_t n>
std::array<std::array<double, n>, n> reflection(const std::array<double, n>& v) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  std::array<std::array<double, n>, n> q{};
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) q[i][j] = (i == j ? 1.0 : 0.0) - 2 * v[i] * v[j] / squares;
  return q;
}

struct least_squares {
  double decay = 0;
  point s{2.0, 1.5, 1.0, 0.7};  // singular values
  std::array<std::array<double, rows>, rows> u = reflection<rows>({1, -2, 3, 1, 0.5, -1, 2, 0.3, 1});
  std::array<std::array<double, columns>, columns> v = reflection<columns>({1, 2, -1, 0.5});
  std::array<double, rows> y{1, -1, 2, 0.5, -2, 1.5, 0.25, -0.75, 3};
  double x[rows][columns] = {};
  point first{3, -2, 1, 4};

  explicit least_squares(double d) : decay(d) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j)
        for (std::size_t k = 0; k < columns; ++k) x[i][j] += u[i][k] * s[k] * v[j][k];
  }
  point gradient(const point& w) const {  // without decay, which the rule adds
    point g{};
    for (const auto& [row, target] : pairs()) {
      double residual = -target;
      for (std::size_t j = 0; j < columns; ++j) residual += row[j] * w[j];
      for (std::size_t j = 0; j < columns; ++j) g[j] += row[j] * residual;
    }
    return g;
  }
  std::vector<std::pair<const double*, double>> pairs() const {
    std::vector<std::pair<const double*, double>> all;
    for (std::size_t i = 0; i < rows; ++i) all.emplace_back(x[i], y[i]);
    return all;
  }
  double curvature(std::size_t k) const { return s[k] * s[k] + decay; }
  point minimiser() const {
    point w{};
    for (std::size_t k = 0; k < columns; ++k) {
      double uy = 0;
      for (std::size_t i = 0; i < rows; ++i) uy += u[i][k] * y[i];
      for (std::size_t j = 0; j < columns; ++j) w[j] += v[j][k] * s[k] / curvature(k) * uy;
    }
    return w;
  }
};

double distance(const point& a, const point& b) {
  double squares = 0;
  for (std::size_t j = 0; j < columns; ++j) squares += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(squares);
}

// The weights after 0, 1, ... `steps` steps of a rule.
std::vector<point> trajectory(const least_squares& p, const char* name, options given, const schedule& rate, double lr,
                              std::uint64_t steps) {
  rule_registry rules;
  add_stock_rules(rules);
  const auto r = rules.find(name)->make(check_options(given, rules.find(name)->specs));
  const auto dev = make_cpu_device();
  tensor w = test::tensor_of<double>(*dev, {columns}, {p.first.begin(), p.first.end()});
  tensors states(r->states().size());
  for (auto& s : states) s = test::tensor_of<double>(*dev, {columns}, std::vector<double>(columns, 0.0));
  std::vector<point> way{p.first};
  for (std::uint64_t t = 0; t < steps; ++t) {
    const auto g = p.gradient(way.back());
    r->update(*dev, {.lr = rate.lr(lr, t), .decay = p.decay, .step = t, .updates = t}, w,
              test::tensor_of<double>(*dev, {columns}, {g.begin(), g.end()}), w, states, states);
    const auto now = values_of(w);
    std::copy(now.begin(), now.end(), way.emplace_back().begin());
  }
  return way;
}

std::unique_ptr<schedule> schedule_of(const char* name, options given = {}) {
  schedule_registry all;
  add_stock_schedules(all);
  return all.find(name)->make(check_options(given, all.find(name)->specs));
}

// Along each singular direction of curvature h the error satisfies e(t + 1) = b e(t) - c e(t - 1),
// with initial values e(0) and e(1). The solution is a sum of powers of the roots of z^2 - b z + c.
double error_at(double e0, double e1, double b, double c, int t) {
  using complex = std::complex<double>;
  if (c == 0) return e0 * std::pow(b, t);
  const complex root = std::sqrt(complex(b * b - 4 * c)), z1 = (b + root) / 2.0, z2 = (b - root) / 2.0;
  const complex share = (e1 - z2 * e0) / (z1 - z2);
  return (share * std::pow(z1, t) + (e0 - share) * std::pow(z2, t)).real();
}

void expect_closed_form(const char* name, double momentum, bool nesterov) {
  for (const double decay : {0.0, 0.3}) {
    const least_squares p(decay);
    const double lr = 0.15;
    const auto way =
        trajectory(p, name, momentum > 0 ? options{{{"momentum", momentum}}} : options{}, *schedule_of("fixed"), lr, 60);
    const auto best = p.minimiser();
    for (int t = 0; t <= 60; ++t) {
      point want = best;
      for (std::size_t k = 0; k < columns; ++k) {
        const double step = lr * p.curvature(k);
        double e0 = 0;
        for (std::size_t j = 0; j < columns; ++j) e0 += p.v[j][k] * (p.first[j] - best[j]);
        const double e1 = (1 - step * (nesterov ? 1 + momentum : 1)) * e0;
        const double b = nesterov ? (1 - step) * (1 + momentum) : 1 + momentum - step;
        const double c = nesterov ? momentum * (1 - step) : momentum;
        const double e = error_at(e0, e1, b, c, t);
        for (std::size_t j = 0; j < columns; ++j) want[j] += p.v[j][k] * e;
      }
      ASSERT_LT(distance(way[static_cast<std::size_t>(t)], want), 1e-10) << name << " decay " << decay << " step " << t;
    }
  }
}

TEST(least_squares, sgd_follows_the_closed_form) { expect_closed_form("sgd", 0, false); }
TEST(least_squares, momentum_follows_the_closed_form) { expect_closed_form("momentum", 0.7, false); }
TEST(least_squares, nesterov_follows_the_closed_form) { expect_closed_form("nesterov", 0.7, true); }

struct bound_case {
  const char* rule;
  options given;
  double lr;
  std::uint64_t steps;
  double bound;  // bound on the distance from the minimiser, relative to the initial distance
};

// Adaptive rules do not converge at a constant rate; theirs decreases linearly to zero.
TEST(least_squares, every_rule_reaches_the_minimiser) {
  const std::vector<bound_case> list{{"sgd", {}, 0.2, 400, 1e-8},
                                     {"momentum", {}, 0.05, 1000, 1e-12},
                                     {"nesterov", {}, 0.05, 1000, 1e-12},
                                     {"adagrad", {}, 2.0, 400, 1e-9},
                                     {"rmsprop", {}, 0.05, 2000, 1e-4},
                                     {"rmsprop", {{{"centered", true}}}, 0.05, 2000, 1e-4},
                                     {"rmsprop", {{{"momentum", 0.9}}}, 0.01, 2000, 1e-4},
                                     {"adadelta", {}, 1.0, 4000, 1e-2},
                                     {"adam", {}, 0.1, 2000, 1e-6},
                                     {"adamw", {}, 0.1, 2000, 1e-6},
                                     {"adamax", {}, 0.1, 2000, 1e-6}};
  rule_registry rules;
  add_stock_rules(rules);
  for (const auto& name : rules.names())
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const bound_case& b) { return b.rule == name; }))
        << name << " has no entry";
  for (const auto& one : list)
    for (const double decay : {0.0, 0.3}) {
      if (decay > 0 && std::string(one.rule) == "adamw") continue;  // its decay is no term of the gradient
      const least_squares p(decay);
      const auto rate = schedule_of("poly", {{{"steps", static_cast<std::int64_t>(one.steps)}}});
      const auto way = trajectory(p, one.rule, one.given, *rate, one.lr, one.steps);
      const auto best = p.minimiser();
      EXPECT_LT(distance(way.back(), best) / distance(p.first, best), one.bound) << one.rule << " decay " << decay;
    }
}

}  // namespace
}  // namespace troupe
