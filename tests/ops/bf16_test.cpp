// bf16 tensors: conversions, products against f64, convolutions against f32. (Other primitives:
// bf16_primitives_test.cpp; layers: layers_test.cpp.)
#include <bit>
#include <cmath>
#include <limits>

#include "ops/bf16.hpp"
#include "ops/conv_algorithm.hpp"
#include "ops/cpu/bf16_product.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/bf16_support.hpp"

namespace troupe {
namespace {

using test::all_devices;
using test::converted;
using test::gaussian;
using test::half_gaussian;
using test::poisoned;

TEST(bf16, every_bit_pattern_survives_a_round_trip_through_float) {
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

// The nearer of the two bf16 neighbours, computed in f64, where distances are exact. On a tie, the
// one whose last bit is 0.
std::uint16_t nearest(float x) {
  const auto down = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  if (std::isnan(x)) return down | 0x40;
  const auto up = static_cast<std::uint16_t>(down + 1);
  const auto at = [](std::uint16_t bits) {  // beyond the largest number: the next one that would exist
    const double v = static_cast<double>(to_float(bf16{bits}));
    return std::isinf(v) ? std::copysign(0x1p128, v) : v;
  };
  if (std::isinf(x)) return down;
  const double below = std::fabs(static_cast<double>(x) - at(down)), above = std::fabs(at(up) - static_cast<double>(x));
  return below < above || (below == above && down % 2 == 0) ? down : up;
}

TEST(bf16, rounds_to_nearest_with_ties_to_even) {
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
    values.push_back(std::bit_cast<float>((bits & 0xffff0000U) | 0x8000U));  // a tie
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

TEST(bf16, converts_to_and_from_other_types) {
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

// --- products against f64. Each is a sum of n terms a b in f32, whose error is below n 2^-23 of
// the sum of |a b|.
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
  if (s.beta == 0.0 && ldc > s.n) d.copy(before, c);  // elements between the rows are preserved
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

TEST(bf16, products_apply_alpha_and_beta) {
  using enum dtype;
  for (auto& d : all_devices()) expect_product(*d, {.m = 7, .n = 9, .k = 21, .alpha = -0.5, .beta = 2.0}, bf16, bf16, bf16);
}

TEST(bf16, rows_of_a_packed_product_do_not_depend_on_other_rows) {
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

// One with padding, one with strides, one with groups, one dilated.
const conv_geometry convolutions[] = {
    {.batch = 3, .channels = 4, .height = 9, .width = 7, .outputs = 6, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
    {.batch = 2,
     .channels = 3,
     .height = 23,
     .width = 23,
     .outputs = 20,
     .kernel_h = 11,
     .kernel_w = 11,
     .stride_h = 4,
     .stride_w = 4},
    {.batch = 5,
     .channels = 32,
     .height = 6,
     .width = 6,
     .outputs = 48,
     .kernel_h = 5,
     .kernel_w = 5,
     .pad_h = 2,
     .pad_w = 2,
     .groups = 2},
    {.batch = 1,
     .channels = 2,
     .height = 8,
     .width = 8,
     .outputs = 3,
     .kernel_h = 3,
     .kernel_w = 3,
     .dilation_h = 2,
     .dilation_w = 2}};

// Relative to the largest value.
void expect_close(const tensor& narrow, const tensor& wide, double tolerance) {
  double largest = 0;
  for (std::int64_t i = 0; i < wide.count(); ++i) largest = std::max(largest, std::fabs(value(wide, i)));
  for (std::int64_t i = 0; i < wide.count(); ++i) ASSERT_NEAR(value(narrow, i), value(wide, i), tolerance * largest) << i;
}

void expect_convolution(device& d, const conv_geometry& g) {
  const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
  const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
  const tensor x = half_gaussian(d, xs, 1), w = gaussian(d, ws, 2, dtype::f32), b = gaussian(d, shape{g.outputs}, 3, dtype::f32);
  const tensor dy = half_gaussian(d, ys, 4);
  const tensor wide_w = converted(d, converted(d, w, dtype::bf16), dtype::f32);
  const tensor wide_x = converted(d, x, dtype::f32), wide_of_dy = converted(d, dy, dtype::f32);
  conv_geometry plain = g;
  plain.algorithm = conv_algorithm::lowering1;
  tensor y = poisoned(d, ys, dtype::bf16), wide_y = poisoned(d, ys, dtype::f32);
  d.conv_forward(g, x, w, b, y);
  d.conv_forward(plain, wide_x, wide_w, b, wide_y);
  expect_close(y, wide_y, 0x1p-8);
  tensor dx = poisoned(d, xs, dtype::bf16), wide_dx = poisoned(d, xs, dtype::f32);
  d.conv_backward_data(g, dy, w, dx);
  d.conv_backward_data(plain, wide_of_dy, wide_w, wide_dx);
  expect_close(dx, wide_dx, 0x1p-8);
  tensor dw = poisoned(d, ws, dtype::f32), wide_dw = poisoned(d, ws, dtype::f32);
  d.conv_backward_weights(g, x, dy, dw);
  d.conv_backward_weights(plain, wide_x, wide_of_dy, wide_dw);
  expect_close(dw, wide_dw, 1e-4);  // f32 sums in another order
  d.conv_backward_weights(g, x, dy, dw, true);
  d.conv_backward_weights(plain, wide_x, wide_of_dy, wide_dw, true);
  expect_close(dw, wide_dw, 1e-4);
}

TEST(bf16, convolutions_agree_with_those_of_f32) {
  for (auto& d : all_devices())
    for (const auto& g : convolutions) ASSERT_NO_FATAL_FAILURE(expect_convolution(*d, g)) << d->numerics_id();
}

}  // namespace
}  // namespace troupe
