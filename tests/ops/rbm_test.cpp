// rbm against loops written from the formulas, and the effect of contrastive divergence: the exact
// likelihood of the data rises.
#include <cmath>
#include <functional>

#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using numbers = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct made {
  std::unique_ptr<layer> maths;
  tensors params, out, grad_in = tensors(1), grad_params;
  saved kept;
};

// One training pass, with gradients of the loss only.
made one_pass(device& d, const options& given, const tensor& v, const tensors& params, context c) {
  made m;
  m.maths = test::stock().make("rbm", given);
  m.params = params;
  const auto plan = m.maths->prepare(d, {v.dims()}, phase::train, dtype::f64);
  for (const auto& s : m.maths->infer({v.dims()})) m.out.push_back(tensor::declare(s, dtype::f64));
  for (const auto& p : params) m.grad_params.push_back(tensor::declare(p.dims(), dtype::f64));
  m.maths->forward(c, *plan, {v}, params, m.out, m.kept);
  m.kept.inputs = {v}, m.kept.outputs = m.out;
  tensors grad_out;
  for (std::size_t o = 0; o < 3; ++o) {
    grad_out.push_back(tensor::allocate(d, m.out[o].dims(), dtype::f64));
    d.fill(o == 0 ? 1.0 : 0.0, grad_out.back());
  }
  m.maths->backward(c, *plan, m.kept, params, grad_out, m.grad_in, m.grad_params, false);
  return m;
}

struct by_hand {
  std::int64_t n, v, h;
  bool gaussian;
  numbers w, c, b;  // [h, v], [h], [v]

  double activation(const double* visible, std::int64_t j) const {
    double a = c[static_cast<std::size_t>(j)];
    for (std::int64_t i = 0; i < v; ++i) a += w[static_cast<std::size_t>(j * v + i)] * visible[i];
    return a;
  }
  double hidden(const double* visible, std::int64_t j) const {
    return gaussian ? activation(visible, j) : sigmoid(activation(visible, j));
  }
  double free_energy(const double* visible) const {
    double f = 0;
    for (std::int64_t i = 0; i < v; ++i) f -= b[static_cast<std::size_t>(i)] * visible[i];
    for (std::int64_t j = 0; j < h; ++j) {
      const double a = activation(visible, j);
      f -= gaussian ? a * a / 2 : std::log1p(std::exp(a));
    }
    return f;
  }
};

void expect_near(const numbers& got, const numbers& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << "element " << i;
}

class rbm_values : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(rbm_values, are_those_of_contrastive_divergence) {
  const auto [hidden_kind, visible_kind] = GetParam();
  for (const auto& d : test::all_devices()) {
    const std::int64_t n = 3, v = 6, h = 4;
    const tensors params{test::gaussian(*d, {h, v}, 1), test::gaussian(*d, {h}, 2), test::gaussian(*d, {v}, 3)};
    tensor v0 = tensor::allocate(*d, {n, v}, dtype::f64);
    d->fill_uniform({.key = 4}, 0.0, 1.0, v0);
    const options given{{{"units", h}, {"hidden", std::string(hidden_kind)}, {"visible", std::string(visible_kind)}}};
    const auto m = one_pass(*d, given, v0, params, {.dev = *d, .seed = 5, .layer = 2, .step = 9});

    const bool gaussian = std::string(hidden_kind) == "gaussian", mean = std::string(visible_kind) == "mean";
    const by_hand r{n, v, h, gaussian, test::values_of(params[0]), test::values_of(params[1]), test::values_of(params[2])};
    const auto x0 = test::values_of(v0), drawn = test::values_of(m.kept.extra[0]), xk = test::values_of(m.kept.extra[1]);
    numbers up(n * h), back(n * v), dw(h * v), dc(h), db(v);
    double loss = 0;
    for (std::int64_t e = 0; e < n; ++e) {
      const double *a = &x0[static_cast<std::size_t>(e * v)], *b = &xk[static_cast<std::size_t>(e * v)];
      loss += (r.free_energy(a) - r.free_energy(b)) / static_cast<double>(n);
      for (std::int64_t j = 0; j < h; ++j) {
        const auto at = static_cast<std::size_t>(e * h + j);
        up[at] = r.hidden(a, j);
        if (!gaussian) {
          EXPECT_TRUE(drawn[at] == 0.0 || drawn[at] == 1.0);
        }
        for (std::int64_t i = 0; i < v; ++i)
          dw[static_cast<std::size_t>(j * v + i)] += (r.hidden(b, j) * b[i] - r.hidden(a, j) * a[i]) / static_cast<double>(n);
        dc[static_cast<std::size_t>(j)] += (r.hidden(b, j) - r.hidden(a, j)) / static_cast<double>(n);
      }
      for (std::int64_t i = 0; i < v; ++i) {
        double p = r.b[static_cast<std::size_t>(i)];
        for (std::int64_t j = 0; j < h; ++j)
          p += r.w[static_cast<std::size_t>(j * v + i)] * drawn[static_cast<std::size_t>(e * h + j)];
        back[static_cast<std::size_t>(e * v + i)] = sigmoid(p);
        db[static_cast<std::size_t>(i)] += (b[i] - a[i]) / static_cast<double>(n);
      }
    }
    EXPECT_NEAR(test::values_of(m.out[0])[0], loss, 1e-12);
    expect_near(test::values_of(m.out[1]), up);
    expect_near(test::values_of(m.out[2]), back);
    if (mean) expect_near(xk, back);
    expect_near(test::values_of(m.grad_params[0]), dw);
    expect_near(test::values_of(m.grad_params[1]), dc);
    expect_near(test::values_of(m.grad_params[2]), db);
  }
}

INSTANTIATE_TEST_SUITE_P(units, rbm_values,
                         testing::Values(std::pair{"binary", "mean"}, std::pair{"binary", "sample"}, std::pair{"gaussian", "mean"},
                                         std::pair{"gaussian", "sample"}),
                         [](const auto& i) { return std::string(i.param.first) + "_" + i.param.second; });

// log p(v) of binary units by enumeration of all configurations.
double log_likelihood(const by_hand& r, const numbers& data) {
  double z = 0;
  for (std::int64_t bits = 0; bits < (std::int64_t{1} << r.v); ++bits) {
    numbers v;
    for (std::int64_t i = 0; i < r.v; ++i) v.push_back(static_cast<double>((bits >> i) & 1));
    z += std::exp(-r.free_energy(v.data()));
  }
  double sum = 0;
  for (std::int64_t e = 0; e < r.n; ++e) sum += -r.free_energy(&data[static_cast<std::size_t>(e * r.v)]) - std::log(z);
  return sum / static_cast<double>(r.n);
}

// Bars and stripes of 3 x 3: fourteen of 512 pictures. The log likelihood is log(1 / 512) = -6.24
// for a uniform model and log(1 / 14) = -2.64 for a perfect one.
TEST(rbm, learns_a_distribution) {
  const auto d = make_cpu_device();
  numbers data;
  for (int kind = 0; kind < 2; ++kind)
    for (int lines = 0; lines < 8; ++lines)
      for (int at = 0; at < 9 && !(kind == 1 && (lines == 0 || lines == 7)); ++at)
        data.push_back((lines >> (kind == 0 ? at / 3 : at % 3)) & 1);
  const std::int64_t n = static_cast<std::int64_t>(data.size()) / 9, h = 12;
  ASSERT_EQ(n, 14);
  const tensor v = test::tensor_of(*d, {n, 9}, data);
  for (const std::int64_t steps : {1, 3}) {
    const options given{{{"units", h}, {"steps", steps}, {"visible", std::string("sample")}}};
    tensors params{test::gaussian(*d, {h, 9}, 1), test::gaussian(*d, {h}, 2), test::gaussian(*d, {9}, 3)};
    for (auto& p : params) d->scale(0.01, p);
    const auto likelihood = [&] {
      return log_likelihood({n, 9, h, false, test::values_of(params[0]), test::values_of(params[1]), test::values_of(params[2])},
                            data);
    };
    const double before = likelihood();
    for (std::uint64_t step = 0; step < 4000; ++step) {
      const auto m = one_pass(*d, given, v, params, {.dev = *d, .seed = 1, .step = step});
      for (std::size_t p = 0; p < params.size(); ++p) d->axpy(-0.1, m.grad_params[p], params[p]);
    }
    EXPECT_NEAR(before, -6.24, 0.1);
    EXPECT_GT(likelihood(), -3.6) << steps << " steps";
  }
}

TEST(rbm, draws_nothing_in_the_test_phase) {
  const auto d = make_cpu_device();
  const test::stock stock;
  const auto l = stock.make("rbm", {{{"units", std::int64_t{3}}}});
  const tensors params{test::gaussian(*d, {3, 4}, 1), test::gaussian(*d, {3}, 2), test::gaussian(*d, {4}, 3)};
  const tensor v = test::gaussian(*d, {2, 4}, 6);
  const auto run = [&](phase ph, std::uint64_t seed) {
    return test::values_of(stock.forward(*l, {.dev = *d, .ph = ph, .seed = seed}, {v}, params)[2]);
  };
  EXPECT_EQ(run(phase::test, 1), run(phase::test, 2));
  EXPECT_NE(run(phase::train, 1), run(phase::train, 2));
}

TEST(sample, has_the_requested_probabilities_for_any_batch_split) {
  for (const auto& d : test::all_devices()) {
    tensor p = tensor::allocate(*d, {100, 70}, dtype::f64);
    d->fill(0.3, p);
    const auto draws = [&](draw kind, std::int64_t first, std::int64_t rows) {
      tensor y = tensor::allocate(*d, {rows, 70}, dtype::f64);
      d->sample(kind, {.key = 1, .a = 2, .b = 3}, static_cast<std::uint64_t>(first), p.slice(first * 70, shape{rows, 70}), y);
      return test::values_of(y);
    };
    for (const auto kind : {draw::bernoulli, draw::gaussian}) {
      const auto all = draws(kind, 0, 100);
      auto pieces = draws(kind, 0, 33);
      for (const double x : draws(kind, 33, 67)) pieces.push_back(x);
      EXPECT_EQ(all, pieces);
      double mean = 0, squares = 0;
      for (const double x : all) mean += x / 7000, squares += x * x / 7000;
      EXPECT_NEAR(mean, 0.3, 0.04);  // three standard deviations are 0.036 and 0.016
      EXPECT_NEAR(squares - mean * mean, kind == draw::gaussian ? 1.0 : 0.21, 0.06);
    }
    d->fill(1.0, p);
    for (const double x : draws(draw::bernoulli, 0, 2)) EXPECT_EQ(x, 1.0);
    d->fill(0.0, p);
    for (const double x : draws(draw::bernoulli, 0, 2)) EXPECT_EQ(x, 0.0);
  }
}

}  // namespace
}  // namespace troupe
