// bf16 tensors: conversions, products against f64, and that primitives give the rounded values of f32. (Layers: layers_test.cpp.)
#include <bit>
#include <cmath>
#include <limits>

#include "ops/bf16.hpp"
#include "ops/conv_algorithm.hpp"
#include "ops/cpu/bf16_product.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::all_devices;
using test::gaussian;

tensor converted(device& d, const tensor& x, dtype t) {
  tensor y = tensor::allocate(d, x.dims(), t);
  d.copy(x, y);
  return y;
}
tensor half_gaussian(device& d, shape s, std::uint64_t key) { return converted(d, gaussian(d, s, key, dtype::f32), dtype::bf16); }
tensor poisoned(device& d, shape s, dtype t) {
  tensor x = tensor::allocate(d, s, t);
  d.fill(std::numeric_limits<double>::quiet_NaN(), x);
  return x;
}

TEST(bf16, every_pattern_comes_back_from_float) {
  for (auto& d : all_devices()) {
    tensor all = tensor::allocate(*d, shape{65536}, dtype::bf16);
    for (int i = 0; i < 65536; ++i) all.mutable_data<bf16>()[i].bits = static_cast<std::uint16_t>(i);
    const tensor wide = converted(*d, all, dtype::f32), back = converted(*d, wide, dtype::bf16);
    for (int i = 0; i < 65536; ++i) {
      const bf16 x = all.data<bf16>()[i];
      const float f = wide.data<float>()[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(f), std::uint32_t{x.bits} << 16);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(to_float(x)), std::uint32_t{x.bits} << 16);
      const auto expected = static_cast<std::uint16_t>(std::isnan(f) ? x.bits | 0x40 : x.bits);
      ASSERT_EQ(back.data<bf16>()[i].bits, expected) << d->numerics_id();
      ASSERT_EQ(to_bf16(f).bits, expected);
    }
  }
}

// Of the two neighbours the nearer one, told in f64, where their distances are exact; halfway, the one whose last bit is 0.
std::uint16_t nearest(float x) {
  const auto down = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  if (std::isnan(x)) return down | 0x40;
  const auto up = static_cast<std::uint16_t>(down + 1);
  const auto at = [](std::uint16_t bits) {  // beyond the largest: where the next one would be
    const double v = static_cast<double>(to_float(bf16{bits}));
    return std::isinf(v) ? std::copysign(0x1p128, v) : v;
  };
  if (std::isinf(x)) return down;
  const double below = std::fabs(static_cast<double>(x) - at(down)), above = std::fabs(at(up) - static_cast<double>(x));
  return below < above || (below == above && down % 2 == 0) ? down : up;
}

TEST(bf16, rounds_to_the_nearest_and_ties_to_even) {
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            1.00390625F,
                            1.01171875F,
                            -1.00390625F,
                            0x1.fep127F,
                            0x1.ffp127F,
                            0x1.fefffep127F,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::denorm_min(),
                            0x1p-134F,
                            0x1.8p-133F,
                            std::bit_cast<float>(0x7f800001U),
                            std::bit_cast<float>(0xffbfffffU),
                            std::bit_cast<float>(0x7fc00000U)};
  std::uint32_t bits = 12345;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525U + 1013904223U;
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(std::bit_cast<float>((bits & 0xffff0000U) | 0x8000U));  // halfway
    values.push_back(std::bit_cast<float>((bits & 0xffff0000U) | (0x7fffU + (bits & 3U))));
  }
  for (auto& d : all_devices()) {
    const tensor wide = test::tensor_of<float>(*d, shape{static_cast<std::int64_t>(values.size())}, values);
    const tensor narrow = converted(*d, wide, dtype::bf16);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(narrow.data<bf16>()[i].bits, nearest(values[i])) << std::hexfloat << values[i] << " on " << d->numerics_id();
      ASSERT_EQ(to_bf16(values[i]).bits, nearest(values[i])) << std::hexfloat << values[i];
    }
  }
}

TEST(bf16, converts_from_and_to_the_other_types) {
  for (auto& d : all_devices()) {
    const std::vector<double> whole{0, 1, 2, 127, 200};
    const std::vector<tensor> all{test::tensor_of<double>(*d, shape{5}, whole),
                                  test::tensor_of<float>(*d, shape{5}, {0, 1, 2, 127, 200}),
                                  test::tensor_of<std::int32_t>(*d, shape{5}, {0, 1, 2, 127, 200}),
                                  test::tensor_of<std::uint8_t>(*d, shape{5}, {0, 1, 2, 127, 200})};
    for (const auto& x : all) {
      const tensor narrow = converted(*d, x, dtype::bf16);
      for (const dtype back : {dtype::f64, dtype::f32})
        for (int i = 0; i < 5; ++i)
          EXPECT_EQ(value(converted(*d, narrow, back), i), whole[static_cast<std::size_t>(i)]) << name_of(x.type());
    }
  }
}

// --- products, against f64: every one is a sum of n terms a b in f32, whose error stays below n 2^-23 of the sum of |a b|.
struct exact {
  std::vector<double> sum, size;
};
exact product(const gemm_spec& s, const tensor& a, const tensor& b, const tensor& c) {
  const auto lda = s.lda ? s.lda : s.transpose_a ? s.m : s.k, ldb = s.ldb ? s.ldb : s.transpose_b ? s.k : s.n;
  const auto ldc = s.ldc ? s.ldc : s.n;
  const auto at = [](const tensor& t, std::int64_t i) {
    return static_cast<double>(to_float(to_bf16(static_cast<float>(value(t, i)))));
  };
  exact e;
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        const double term = at(a, s.transpose_a ? k * lda + i : i * lda + k) * at(b, s.transpose_b ? j * ldb + k : k * ldb + j);
        sum += term, size += std::fabs(term);
      }
      const double old = s.beta == 0.0 ? 0.0 : s.beta * value(c, i * ldc + j);
      e.sum.push_back(s.alpha * sum + old);
      e.size.push_back(std::fabs(s.alpha) * size + std::fabs(old));
    }
  return e;
}
void expect_product(device& d, const gemm_spec& s, dtype ta, dtype tb, dtype tc) {
  const auto lda = s.lda ? s.lda : s.transpose_a ? s.m : s.k, ldb = s.ldb ? s.ldb : s.transpose_b ? s.k : s.n;
  const auto ldc = s.ldc ? s.ldc : s.n;
  const tensor a = converted(d, gaussian(d, shape{(s.transpose_a ? s.k : s.m) * lda}, 1, dtype::f32), ta);
  const tensor b = converted(d, gaussian(d, shape{(s.transpose_b ? s.n : s.k) * ldb}, 2, dtype::f32), tb);
  const tensor before = converted(d, gaussian(d, shape{s.m * ldc}, 3, dtype::f32), tc);
  tensor c = s.beta == 0.0 ? poisoned(d, before.dims(), tc) : converted(d, before, tc);
  if (s.beta == 0.0 && ldc > s.n) d.copy(before, c);  // what is between the rows stays
  const exact e = product(s, a, b, before);
  d.gemm(s, a, b, c);
  const double rounding = tc == dtype::bf16 ? 0x1p-8 : 0;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      const auto at = static_cast<std::size_t>(i * s.n + j);
      const double bound = static_cast<double>(s.k + 1) * 0x1p-23 * e.size[at] + rounding * std::fabs(e.sum[at]);
      ASSERT_NEAR(value(c, i * ldc + j), e.sum[at], bound)
          << d.numerics_id() << ", " << s.m << "x" << s.n << "x" << s.k << ", row " << i;
    }
    for (std::int64_t j = s.n; j < ldc && i + 1 < s.m; ++j) ASSERT_EQ(value(c, i * ldc + j), value(before, i * ldc + j));
  }
}

TEST(bf16, products_agree_with_f64) {
  using enum dtype;
  for (auto& d : all_devices())
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const auto& [m, n, k] :
             {std::array<std::int64_t, 3>{1, 1, 1}, {3, 17, 5}, {16, 32, 64}, {33, 70, 129}, {40, 1, 100}, {2, 300, 31}})
          for (const double beta : {0.0, 1.0}) {
            gemm_spec s{.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .beta = beta};
            expect_product(*d, s, bf16, bf16, f32);
            expect_product(*d, s, bf16, bf16, bf16);
            expect_product(*d, s, bf16, f32, bf16);
            expect_product(*d, s, f32, bf16, f32);
            s.lda = (ta ? m : k) + 3, s.ldb = (tb ? k : n) + 1, s.ldc = n + 5;
            expect_product(*d, s, bf16, bf16, bf16);
            expect_product(*d, s, bf16, bf16, f32);
          }
}

TEST(bf16, alpha_and_beta_of_a_product_count) {
  using enum dtype;
  for (auto& d : all_devices()) expect_product(*d, {.m = 7, .n = 9, .k = 21, .alpha = -0.5, .beta = 2.0}, bf16, bf16, bf16);
}

TEST(bf16, a_packed_factor_gives_rows_that_depend_on_nothing_else) {
  for (auto& d : all_devices()) {
    const gemm_spec s{.transpose_b = true, .m = 9, .n = 37, .k = 50};
    const tensor a = half_gaussian(*d, shape{9, 50}, 1), b = half_gaussian(*d, shape{37, 50}, 2), packed = d->pack(s, b);
    tensor all = poisoned(*d, shape{9, 37}, dtype::bf16), one = poisoned(*d, shape{1, 37}, dtype::bf16);
    d->gemm_packed(s, a, packed, all);
    gemm_spec row = s;
    row.m = 1;
    for (std::int64_t i = 0; i < 9; ++i) {
      d->gemm_packed(row, a.slice(i * 50, shape{1, 50}), packed, one);
      EXPECT_TRUE(same_bits(one, all.slice(i * 37, shape{1, 37}))) << d->numerics_id();
    }
  }
}

TEST(bf16, convolutions_agree_with_those_of_f32) {
  for (auto& d : all_devices())
    for (const auto& g : {conv_geometry{.batch = 3,
                         .channels = 4,
                         .height = 9,
                         .width = 7,
                         .outputs = 6,
                         .kernel_h = 3,
                         .kernel_w = 3,
                         .pad_h = 1,
                         .pad_w = 1},
                          conv_geometry{.batch = 2,
                          .channels = 3,
                          .height = 23,
                          .width = 23,
                          .outputs = 20,
                          .kernel_h = 11,
                          .kernel_w = 11,
                          .stride_h = 4,
                          .stride_w = 4},
                          conv_geometry{.batch = 5,
                          .channels = 32,
                          .height = 6,
                          .width = 6,
                          .outputs = 48,
                          .kernel_h = 5,
                          .kernel_w = 5,
                          .pad_h = 2,
                          .pad_w = 2,
                          .groups = 2},
                          conv_geometry{.batch = 1,
                          .channels = 2,
                          .height = 8,
                          .width = 8,
                          .outputs = 3,
                          .kernel_h = 3,
                          .kernel_w = 3,
                          .dilation_h = 2,
                          .dilation_w = 2}}) {
      const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
      const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
      const tensor x = half_gaussian(*d, xs, 1), w = gaussian(*d, ws, 2, dtype::f32),
                   b = gaussian(*d, shape{g.outputs}, 3, dtype::f32);
      const tensor dy = half_gaussian(*d, ys, 4);
      const tensor wide_w = converted(*d, converted(*d, w, dtype::bf16), dtype::f32);
      const auto close = [&](const tensor& narrow, const tensor& wide, double tolerance) {
        double largest = 0;
        for (std::int64_t i = 0; i < wide.count(); ++i) largest = std::max(largest, std::fabs(value(wide, i)));
        for (std::int64_t i = 0; i < wide.count(); ++i) ASSERT_NEAR(value(narrow, i), value(wide, i), tolerance * largest) << i;
      };
      conv_geometry plain = g;
      plain.algorithm = conv_algorithm::lowering1;
      tensor y = poisoned(*d, ys, dtype::bf16), wide_y = poisoned(*d, ys, dtype::f32);
      d->conv_forward(g, x, w, b, y);
      d->conv_forward(plain, converted(*d, x, dtype::f32), wide_w, b, wide_y);
      close(y, wide_y, 0x1p-8);
      tensor dx = poisoned(*d, xs, dtype::bf16), wide_dx = poisoned(*d, xs, dtype::f32);
      d->conv_backward_data(g, dy, w, dx);
      d->conv_backward_data(plain, converted(*d, dy, dtype::f32), wide_w, wide_dx);
      close(dx, wide_dx, 0x1p-8);
      tensor dw = poisoned(*d, ws, dtype::f32), wide_dw = poisoned(*d, ws, dtype::f32);
      d->conv_backward_weights(g, x, dy, dw);
      d->conv_backward_weights(plain, converted(*d, x, dtype::f32), converted(*d, dy, dtype::f32), wide_dw);
      close(dw, wide_dw, 1e-4);  // f32: another order of the sum
      d->conv_backward_weights(g, x, dy, dw, true);
      d->conv_backward_weights(plain, converted(*d, x, dtype::f32), converted(*d, dy, dtype::f32), wide_dw, true);
      close(dw, wide_dw, 1e-4);
    }
}

// --- the rest: what f32 makes of the same numbers, rounded once. To the bit, since nothing else is done.
struct bf16_primitive : testing::Test {
  std::unique_ptr<device> d = make_cpu_device();
  tensor wide(const tensor& x) { return converted(*d, x, dtype::f32); }
  void expect_rounded(const tensor& narrow, const tensor& of_f32) {
    EXPECT_TRUE(same_bits(narrow, converted(*d, of_f32, dtype::bf16)));
  }
};

TEST_F(bf16_primitive, maps) {
  tensor x = half_gaussian(*d, shape{20001}, 1), dy = half_gaussian(*d, shape{20001}, 2);
  x.mutable_data<bf16>()[0] = to_bf16(-0.0F), x.mutable_data<bf16>()[1] = to_bf16(std::nanf("")),
  x.mutable_data<bf16>()[2] = to_bf16(-INFINITY);
  x.mutable_data<bf16>()[3] = to_bf16(INFINITY), x.mutable_data<bf16>()[4] = to_bf16(0.0F), x.mutable_data<bf16>()[5] = bf16{1};
  for (const auto f :
       {unary::relu, unary::sigmoid, unary::tanh, unary::exp, unary::square, unary::absolute, unary::elu, unary::gelu})
    for (const double parameter : {0.0, 0.5}) {
      tensor y = poisoned(*d, x.dims(), dtype::bf16), y32 = poisoned(*d, x.dims(), dtype::f32), dx = y, dx32 = y32;
      d->map(f, parameter, x, y);
      d->map(f, parameter, wide(x), y32);
      expect_rounded(y, y32);
      dx = poisoned(*d, x.dims(), dtype::bf16), dx32 = poisoned(*d, x.dims(), dtype::f32);
      d->map_backward(f, parameter, x, y, dy, dx);
      d->map_backward(f, parameter, wide(x), wide(y), wide(dy), dx32);
      expect_rounded(dx, dx32);
    }
}

TEST_F(bf16_primitive, arithmetic) {
  const tensor x = half_gaussian(*d, shape{3, 5000}, 1), y = half_gaussian(*d, shape{3, 5000}, 2),
               b = gaussian(*d, shape{5000}, 3, dtype::f32);
  for (const auto op : {binary::add, binary::subtract, binary::multiply, binary::maximum, binary::rectified_sum}) {
    tensor z = poisoned(*d, x.dims(), dtype::bf16), z32 = poisoned(*d, x.dims(), dtype::f32);
    d->apply(op, x, y, z);
    d->apply(op, wide(x), wide(y), z32);
    expect_rounded(z, z32);
  }
  tensor z = converted(*d, x, dtype::bf16), z32 = wide(x);
  d->axpy(0.3, y, z), d->axpy(0.3, wide(y), z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->scale(-1.7, z), d->scale(-1.7, z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->add_bias(3, 5000, 1, b, z), d->add_bias(3, 5000, 1, b, z32);
  expect_rounded(z, z32);
  z32 = wide(z);
  d->add_bias(3, 50, 100, b.slice(0, shape{50}), z), d->add_bias(3, 50, 100, b.slice(0, shape{50}), z32);
  expect_rounded(z, z32);
  tensor blended = poisoned(*d, x.dims(), dtype::bf16), blended32 = poisoned(*d, x.dims(), dtype::f32);
  d->blend(3, 5000, 1, x, b, y, {}, b, blended), d->blend(3, 5000, 1, wide(x), b, wide(y), {}, b, blended32);
  expect_rounded(blended, blended32);
  for (const auto& [outer, mid, inner] : {std::array<std::int64_t, 3>{3, 5000, 1}, {3, 10, 500}, {1, 5, 3000}, {5000, 1, 3}}) {
    tensor sum = poisoned(*d, shape{mid}, dtype::f32), sum32 = poisoned(*d, shape{mid}, dtype::f32);
    d->reduce_sum(outer, mid, inner, x, sum), d->reduce_sum(outer, mid, inner, wide(x), sum32);
    EXPECT_TRUE(same_bits(sum, sum32));
    d->reduce_product(outer, mid, inner, x, y, sum), d->reduce_product(outer, mid, inner, wide(x), wide(y), sum32);
    EXPECT_TRUE(same_bits(sum, sum32));
  }
  EXPECT_EQ(test::squares_of(*d, x), test::squares_of(*d, wide(x)));
}

TEST_F(bf16_primitive, pooling_and_normalisation) {
  const lrn_geometry across{.batch = 3, .channels = 40, .height = 9, .width = 11};
  lrn_geometry within = across;
  within.across_channels = false, within.size = 3;
  const shape xs{3, 40, 9, 11};
  const tensor x = half_gaussian(*d, xs, 1), dy = half_gaussian(*d, xs, 2);
  for (const auto& g : {within}) {
    tensor y = poisoned(*d, xs, dtype::bf16), y32 = poisoned(*d, xs, dtype::f32), scale = poisoned(*d, xs, dtype::f32),
           scale32 = poisoned(*d, xs, dtype::f32);
    d->lrn(g, x, y, scale), d->lrn(g, wide(x), y32, scale32);
    expect_rounded(y, y32);
    EXPECT_TRUE(same_bits(scale, scale32));
    tensor dx = poisoned(*d, xs, dtype::bf16), dx32 = poisoned(*d, xs, dtype::f32);
    d->lrn_backward(g, x, scale, dy, dx), d->lrn_backward(g, wide(x), scale, wide(dy), dx32);
    expect_rounded(dx, dx32);
  }
  for (auto [height, width] : {std::array<std::int64_t, 2>{9, 11}, {2, 3}, {1, 1}})  // more and less than a strip of pixels
    for (const double beta : {0.75, 0.6}) {
      const lrn_geometry g{.batch = 3, .channels = 40, .height = height, .width = width, .beta = beta};
      const shape s{3, 40, height, width};
      const tensor in = half_gaussian(*d, s, 5), slope = half_gaussian(*d, s, 6);
      tensor y = poisoned(*d, s, dtype::bf16), y32 = poisoned(*d, s, dtype::f32), scale = poisoned(*d, s, dtype::bf16);
      tensor scale32 = poisoned(*d, s, dtype::f32), dx = poisoned(*d, s, dtype::bf16), dx32 = poisoned(*d, s, dtype::f32);
      d->lrn(g, in, y, scale), d->lrn(g, wide(in), y32, scale32);
      d->lrn_backward(g, in, scale, slope, dx), d->lrn_backward(g, wide(in), scale32, wide(slope), dx32);
      for (std::int64_t i = 0; i < s.count(); ++i) {
        ASSERT_NEAR(value(y, i), value(y32, i), 0x1.04p-8 * std::fabs(value(y32, i)));  // rounded, by a root that is off by 5e-6
        ASSERT_NEAR(value(scale, i), value(scale32, i), 0x1.04p-8 * value(scale32, i));
        ASSERT_NEAR(value(dx, i), value(dx32, i), 0.02 * (1 + std::fabs(value(dx32, i))));
      }
    }
  const pool_geometry p{
      .planes = 120, .height = 9, .width = 11, .out_h = 4, .out_w = 5, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2};
  const shape ys{3, 40, 4, 5};
  const tensor dp = half_gaussian(*d, ys, 3);
  tensor y = poisoned(*d, ys, dtype::bf16), y32 = poisoned(*d, ys, dtype::f32), at = tensor::allocate(*d, ys, dtype::i32),
         at32 = tensor::allocate(*d, ys, dtype::i32);
  tensor dx = poisoned(*d, xs, dtype::bf16), dx32 = poisoned(*d, xs, dtype::f32);
  d->max_pool(p, x, y, at), d->max_pool(p, wide(x), y32, at32);
  expect_rounded(y, y32);
  EXPECT_TRUE(same_bits(at, at32));
  d->max_pool_backward(p, dp, at, dx), d->max_pool_backward(p, wide(dp), at, dx32);
  expect_rounded(dx, dx32);
  d->avg_pool(p, x, y), d->avg_pool(p, wide(x), y32);
  expect_rounded(y, y32);
  d->avg_pool_backward(p, dp, dx), d->avg_pool_backward(p, wide(dp), dx32);
  expect_rounded(dx, dx32);
}

TEST_F(bf16_primitive, draws_are_those_of_f32) {
  for (const auto& s : {shape{40, 700}, shape{3, 20000}}) {
    const tensor x = half_gaussian(*d, s, 1);
    tensor y = poisoned(*d, s, dtype::bf16), y32 = poisoned(*d, s, dtype::f32);
    d->dropout({.key = 5}, 17, 0.3, x, y), d->dropout({.key = 5}, 17, 0.3, wide(x), y32);
    expect_rounded(y, y32);
    d->sample(draw::gaussian, {.key = 6}, 17, x, y), d->sample(draw::gaussian, {.key = 6}, 17, wide(x), y32);
    expect_rounded(y, y32);
  }
}

// What is between a convolution and its tail is rounded as if somebody saw it.
TEST_F(bf16_primitive, a_convolution_with_its_tail_has_the_bits_of_the_layers_apart) {
  const conv_geometry g{.batch = 37, .channels = 3, .height = 15, .width = 15, .outputs = 8, .kernel_h = 3, .kernel_w = 3};
  const conv_tail t{.pools = true,
                    .maps = true,
                    .window = {.planes = 37 * 8,
                               .height = 13,
                               .width = 13,
                               .out_h = 6,
                               .out_w = 6,
                               .kernel_h = 2,
                               .kernel_w = 2,
                               .stride_h = 2,
                               .stride_w = 2}};
  const tensor x = half_gaussian(*d, shape{37, 3, 15, 15}, 1), w = gaussian(*d, shape{8, 3, 3, 3}, 2, dtype::f32),
               b = gaussian(*d, shape{8}, 3, dtype::f32);
  const shape ys{37, 8, 6, 6}, zs{37, 8, 13, 13};
  tensor y = poisoned(*d, ys, dtype::bf16), index = tensor::allocate(*d, ys, dtype::i32), apart = y,
         winners = tensor::allocate(*d, ys, dtype::i32);
  d->conv_tail_forward(g, t, x, w, b, y, index);
  apart = poisoned(*d, ys, dtype::bf16);
  tensor z = poisoned(*d, zs, dtype::bf16);
  d->conv_forward(g, x, w, b, z);
  d->max_pool(t.window, z, apart, winners);
  d->map(unary::relu, 0.0, apart, apart);
  EXPECT_TRUE(same_bits(y, apart));
  EXPECT_TRUE(same_bits(index, winners));
  const tensor dy = half_gaussian(*d, ys, 4);
  tensor dx = poisoned(*d, x.dims(), dtype::bf16), dw = poisoned(*d, w.dims(), dtype::f32), db = poisoned(*d, b.dims(), dtype::f32);
  d->conv_tail_backward(g, t, x, w, y, index, dy, dx, dw, db);
  EXPECT_FALSE(any_nan(dx) || any_nan(dw) || any_nan(db));
  tensor da = poisoned(*d, ys, dtype::bf16), dz = poisoned(*d, zs, dtype::bf16), dx2 = poisoned(*d, x.dims(), dtype::bf16);
  d->map_backward(unary::relu, 0.0, {}, y, dy, da);
  d->max_pool_backward(t.window, da, index, dz);
  d->conv_backward_data(g, dz, w, dx2);
  EXPECT_TRUE(same_bits(dx, dx2));
}

// In the test phase an rbm draws nothing, so that its values can be compared.
TEST_F(bf16_primitive, rbm_without_draws_agrees_with_f32) {
  const test::stock stock;
  const auto l = stock.make("rbm", options{{{"units", std::int64_t{70}}}});
  const tensor v = half_gaussian(*d, shape{4, 90}, 1), w = gaussian(*d, shape{70, 90}, 2, dtype::f32);
  const tensor b = gaussian(*d, shape{70}, 3, dtype::f32), c = gaussian(*d, shape{90}, 4, dtype::f32);
  tensors out[2];
  for (const bool narrow : {false, true}) {
    const tensor in = narrow ? v : wide(v);
    for (const auto& s : l->infer({in.dims()}))
      out[narrow].push_back(tensor::declare(s, output_type(*l, out[narrow].size(), in.type())));
    context ctx{.dev = *d, .ph = phase::test};
    saved s;
    l->forward(ctx, *l->prepare(*d, {in.dims()}, phase::test, in.type()), {in}, {wide(converted(*d, w, dtype::bf16)), b, c},
               out[narrow], s);
  }
  EXPECT_EQ(out[1][0].type(), dtype::f32);
  EXPECT_NEAR(value(out[1][0], 0), value(out[0][0], 0), 0.2);  // a difference of two energies of about 100
  for (const std::size_t o : {1U, 2U})
    for (std::int64_t i = 0; i < out[0][o].count(); ++i) ASSERT_NEAR(value(out[1][o], i), value(out[0][o], i), 0.05) << o;
}

}  // namespace
}  // namespace troupe
