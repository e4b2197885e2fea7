// Products and convolutions on AMX tiles against f64. Factors are rounded to bf16 first, so that
// the only difference is the rounding of f32 sums. Skipped by name on a processor without tiles.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ops/cpu/amx_ops.hpp"
#include "tests/ops/random_convolutions.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using cpu::amx;

struct amx_test : testing::Test {
  void SetUp() override {
    if (!amx()) GTEST_SKIP() << "this processor has no AMX, or the operating system does not permit it";
    dev = make_cpu_device();
  }
  tensor as(const tensor& from, dtype t) {
    tensor to = tensor::allocate(*dev, from.dims(), t);
    dev->copy(from, to);
    return to;
  }
  // Gaussian values that are exact in bf16, in f64.
  tensor values(shape s, std::uint64_t key) { return as(as(test::gaussian(*dev, s, key, dtype::f32), dtype::bf16), dtype::f64); }
  tensor poisoned(shape s, dtype t) {
    tensor x = tensor::allocate(*dev, s, dtype::f32);
    dev->fill(std::nan(""), x);
    return t == dtype::f32 ? x : as(x, t);
  }
  // The largest difference, relative to the root mean square of the reference.
  double distance(const tensor& got, const tensor& right) {
    const tensor g = as(as(got, dtype::f32), dtype::f64);
    double worst = 0, squares = 0;
    for (std::int64_t i = 0; i < right.count(); ++i) {
      const double r = right.data<double>()[i], d = std::fabs(g.data<double>()[i] - r);
      worst = std::isnan(d) ? 1e30 : std::max(worst, d);
      squares += r * r;
    }
    return worst / (1e-30 + std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(1, right.count()))));
  }
  // A bf16 output equals the rounded f32 output.
  void expect_rounded(const tensor& narrow, const tensor& wide) {
    const tensor right = as(wide, dtype::bf16);
    EXPECT_EQ(std::memcmp(narrow.raw(), right.raw(), right.bytes()), 0);
  }
  void check(const conv_geometry& g);
  void check(const gemm_spec& s, dtype a, dtype b);
  std::unique_ptr<device> dev;
};

constexpr double close = 3e-5;

void amx_test::check(const conv_geometry& g) {
  SCOPED_TRACE(test::text_of(g));
  const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
  const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
  const tensor x = values(xs, 1), w = values(ws, 2), bias = values({g.outputs}, 3), dy = values(ys, 4);
  tensor y = test::empty(*dev, ys), dx = test::empty(*dev, xs), dw = test::empty(*dev, ws);
  dev->device::conv_forward(g, x, w, bias, y);
  dev->device::conv_backward_data(g, dy, w, dx);
  dev->device::conv_backward_weights(g, x, dy, dw);

  const tensor xb = as(x, dtype::bf16), dyb = as(dy, dtype::bf16), wf = as(w, dtype::f32), bf = as(bias, dtype::f32);
  tensor y2 = poisoned(ys, dtype::f32), dx2 = poisoned(xs, dtype::f32), dw2 = poisoned(ws, dtype::f32);
  cpu::amx_conv_forward(*dev, *amx(), g, xb, wf, bf, y2);
  cpu::amx_conv_backward_data(*dev, *amx(), g, dyb, wf, dx2);
  cpu::amx_conv_backward_weights(*dev, *amx(), g, xb, dyb, dw2, false);
  EXPECT_LT(distance(y2, y), close) << "forward";
  EXPECT_LT(distance(dx2, dx), close) << "backward data";
  EXPECT_LT(distance(dw2, dw), close) << "backward weights";

  tensor y3 = poisoned(ys, dtype::bf16), dx3 = poisoned(xs, dtype::bf16);
  cpu::amx_conv_forward(*dev, *amx(), g, xb, wf, bf, y3);
  cpu::amx_conv_backward_data(*dev, *amx(), g, dyb, wf, dx3);
  expect_rounded(y3, y2);
  expect_rounded(dx3, dx2);

  cpu::amx_conv_backward_weights(*dev, *amx(), g, xb, dyb, dw2, true);
  dev->scale(2.0, dw);
  EXPECT_LT(distance(dw2, dw), close) << "backward weights, accumulated";
}

void amx_test::check(const gemm_spec& s, dtype at, dtype bt) {
  SCOPED_TRACE(std::to_string(s.m) + " " + std::to_string(s.n) + " " + std::to_string(s.k) + (s.transpose_a ? " T" : " N") +
               (s.transpose_b ? "T " : "N ") + name_of(at) + " " + name_of(bt));
  const tensor a = values(s.transpose_a ? shape{s.k, s.m} : shape{s.m, s.k}, 1),
               b = values(s.transpose_b ? shape{s.n, s.k} : shape{s.k, s.n}, 2);
  const tensor before = values({s.m, s.n}, 3);
  tensor c = as(before, dtype::f64), c2 = s.beta != 0.0 ? as(before, dtype::f32) : poisoned({s.m, s.n}, dtype::f32);
  tensor c3 = s.beta != 0.0 ? as(before, dtype::bf16) : poisoned({s.m, s.n}, dtype::bf16);
  dev->gemm(s, a, b, c);
  cpu::amx_gemm(*dev, *amx(), s, as(a, at), as(b, bt), c2);
  EXPECT_LT(distance(c2, c), close);
  cpu::amx_gemm(*dev, *amx(), s, as(a, at), as(b, bt), c3);
  EXPECT_LT(distance(c3, as(as(c2, dtype::bf16), dtype::f64)), s.beta != 0.0 ? 1e-2 : 1e-9);
}

TEST_F(amx_test, products_of_every_form_agree_with_f64) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const double beta : {0.0, 1.0})
        for (const auto at : {dtype::f32, dtype::bf16})
          for (const auto bt : {dtype::f32, dtype::bf16})
            for (const auto& e : {shape{1, 1, 1}, shape{16, 16, 32}, shape{5, 33, 7}, shape{32, 64, 513}, shape{47, 300, 1100},
                                  shape{530, 18, 600}})
              check({.transpose_a = ta,
                     .transpose_b = tb,
                     .m = e[0],
                     .n = e[1],
                     .k = e[2],
                     .alpha = beta != 0.0 ? 1.0 : 0.5,
                     .beta = beta},
                    at, bt);
}

TEST_F(amx_test, streamed_products_agree_with_f64) {
  check({.transpose_a = true, .m = 2064, .n = 4112, .k = 3}, dtype::bf16, dtype::bf16);
  check({.transpose_a = true, .m = 2061, .n = 4112, .k = 3}, dtype::bf16, dtype::bf16);
}

TEST_F(amx_test, products_of_random_extents_agree_with_f64) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const auto pick = [&](int most) { return static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(most)); };
    check({.transpose_a = random() % 2 == 0,
           .transpose_b = random() % 2 == 0,
           .m = pick(90),
           .n = pick(90),
           .k = pick(i % 10 == 0 ? 1500 : 100),
           .beta = random() % 2 == 0 ? 1.0 : 0.0},
          random() % 2 == 0 ? dtype::f32 : dtype::bf16, dtype::bf16);
  }
}

TEST_F(amx_test, products_preserve_gaps_between_rows) {
  constexpr std::int64_t m = 20, n = 40, k = 50;
  const tensor a = values({m, k + 3}, 1), b = values({k, n + 5}, 2);
  tensor c = test::empty(*dev, {m, n + 2}), c2 = test::empty(*dev, {m, n + 2}, dtype::f32);
  dev->fill(7.0, c);
  dev->fill(7.0, c2);
  const gemm_spec s{.m = m, .n = n, .k = k, .lda = k + 3, .ldb = n + 5, .ldc = n + 2};
  dev->gemm(s, a, b, c);
  cpu::amx_gemm(*dev, *amx(), s, as(a, dtype::bf16), as(b, dtype::bf16), c2);
  EXPECT_LT(distance(c2, c), close);
}

TEST_F(amx_test, empty_sum_gives_zeros) {
  tensor c = poisoned({3, 4}, dtype::f32);
  cpu::amx_gemm(*dev, *amx(), {.m = 3, .n = 4, .k = 0}, tensor::allocate(*dev, {3, 0}, dtype::bf16),
                tensor::allocate(*dev, {0, 4}, dtype::bf16), c);
  for (float v : test::values_of<float>(c)) EXPECT_EQ(v, 0.0f);
}

TEST_F(amx_test, convolutions_of_common_nets_agree_with_f64) {
  check({.batch = 2,
         .channels = 3,
         .height = 67,
         .width = 67,
         .outputs = 96,
         .kernel_h = 11,
         .kernel_w = 11,
         .stride_h = 4,
         .stride_w = 4});
  check({.batch = 3,
         .channels = 96,
         .height = 27,
         .width = 27,
         .outputs = 64,
         .kernel_h = 5,
         .kernel_w = 5,
         .pad_h = 2,
         .pad_w = 2,
         .groups = 2});
  check(
      {.batch = 5, .channels = 64, .height = 13, .width = 13, .outputs = 48, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1});
  check({.batch = 9, .channels = 1, .height = 28, .width = 28, .outputs = 20, .kernel_h = 5, .kernel_w = 5});
  check({.batch = 4,
         .channels = 16,
         .height = 32,
         .width = 32,
         .outputs = 32,
         .kernel_h = 3,
         .kernel_w = 3,
         .stride_h = 2,
         .stride_w = 2,
         .pad_h = 1,
         .pad_w = 1});
  check({.batch = 4, .channels = 24, .height = 9, .width = 7, .outputs = 40, .stride_h = 2, .stride_w = 2});
}

TEST_F(amx_test, random_convolutions_agree_with_f64) {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    const auto pick = [&](int least, int most) {
      return static_cast<std::int64_t>(least) + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
    };
    conv_geometry g;
    g.groups = random() % 4 == 0 ? pick(2, 3) : 1;
    g.batch = pick(1, 4), g.channels = g.groups * pick(1, i % 5 == 0 ? 70 : 9), g.outputs = g.groups * pick(1, i % 5 == 1 ? 70 : 9);
    g.kernel_h = pick(1, 5), g.kernel_w = pick(1, 5), g.stride_h = pick(1, 3), g.stride_w = pick(1, 3);
    g.dilation_h = random() % 3 == 0 ? 2 : 1, g.dilation_w = random() % 3 == 0 ? 2 : 1;
    g.pad_h = pick(0, 3), g.pad_w = pick(0, 3);
    const auto least = [](std::int64_t kernel, std::int64_t dilation, std::int64_t pad) {
      return std::max<std::int64_t>(1, dilation * (kernel - 1) + 1 - 2 * pad);
    };
    g.height = least(g.kernel_h, g.dilation_h, g.pad_h) + pick(0, 12),
    g.width = least(g.kernel_w, g.dilation_w, g.pad_w) + pick(0, 40);
    check(g);
    if (HasFailure()) return;
  }
}

TEST_F(amx_test, rounds_factors_to_nearest_even) {
  const std::vector<float> f = {1.00390625f, 1.01171875f, std::numeric_limits<float>::infinity(),
                                std::nanf("")};  // ties: down to 1, up to 1.015625
  tensor a = tensor::allocate(*dev, {4, 1}, dtype::f32), one = tensor::allocate(*dev, {1, 1}, dtype::bf16),
         c = poisoned({4, 1}, dtype::f32);
  dev->upload(f.data(), a);
  one = as(test::tensor_of<float>(*dev, {1, 1}, {1.0f}), dtype::bf16);
  cpu::amx_gemm(*dev, *amx(), {.m = 4, .n = 1, .k = 1}, a, one, c);
  const auto v = test::values_of<float>(c);
  EXPECT_EQ(v[0], 1.0f);
  EXPECT_EQ(v[1], 1.015625f);
  EXPECT_TRUE(std::isinf(v[2]));
  EXPECT_TRUE(std::isnan(v[3]));
}

}  // namespace
}  // namespace troupe
