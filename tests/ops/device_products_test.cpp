// Matrix products and sums over packets, against naive loops and f64, on every available device.
#include <cmath>
#include <functional>
#include <random>

#include "ops/packet_sum.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/every_device.hpp"

namespace troupe {
namespace {

using test::every_device;
using test::gaussian;

TEST_P(every_device, gemm_agrees_with_a_loop_for_every_transposition) {
  const std::int64_t m = 5, n = 7, k = 9;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const tensor a = gaussian(*dev, ta ? shape{k, m} : shape{m, k}, 1), b = gaussian(*dev, tb ? shape{n, k} : shape{k, n}, 2);
      tensor c = gaussian(*dev, shape{m, n}, 3);
      const auto before = values_of(c);
      dev->gemm({.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .alpha = 2.0, .beta = 0.5}, a, b, c);
      const tensor x = home(a), y = home(b), z = home(c);
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += x.data<double>()[ta ? l * m + i : i * k + l] * y.data<double>()[tb ? j * k + l : l * n + j];
          EXPECT_NEAR(z.data<double>()[i * n + j], 2 * sum + 0.5 * before[static_cast<std::size_t>(i * n + j)], 1e-12);
        }
    }
}

// Few rows or short sums have their own f32 kernels (ops/cpu/gemm_thin.cpp). Compared with f64,
// including row strides.
TEST_P(every_device, thin_products_agree_with_f64) {
  const std::int64_t sizes[][3] = {{1, 64, 256},  {32, 96, 272},  {33, 70, 512},  {128, 65, 1024}, {5, 64, 16},   {31, 1040, 130},
                                   {300, 80, 64}, {500, 800, 64}, {64, 528, 300}, {14, 4112, 33},  {64, 500, 800}};
  for (const auto& [m, n, k] : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const std::int64_t more : {0, 48}) {
          gemm_spec s{.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k};
          s.lda = (ta ? m : k) + more, s.ldb = (tb ? k : n) + more, s.ldc = n + more;
          const tensor a = gaussian(*dev, {(ta ? k : m) * s.lda}, 1, dtype::f32),
                       b = gaussian(*dev, {(tb ? n : k) * s.ldb}, 2, dtype::f32);
          tensor c = test::empty(*dev, {m * s.ldc}, dtype::f32), a2 = test::empty(*dev, a.dims()), b2 = test::empty(*dev, b.dims());
          tensor c2 = test::empty(*dev, c.dims());
          dev->fill(7.0, c);
          dev->fill(7.0, c2);
          dev->copy(a, a2);
          dev->copy(b, b2);
          dev->gemm(s, a, b, c);
          dev->gemm(s, a2, b2, c2);
          c = home(c), c2 = home(c2);
          double worst = 0;
          for (std::int64_t i = 0; i < c.count(); ++i) worst = std::max(worst, std::fabs(value(c, i) - value(c2, i)));
          EXPECT_LT(worst, 1e-5 * std::sqrt(static_cast<double>(k))) << m << " " << n << " " << k << " " << ta << tb << " " << more;
        }
}

// Products of several packets in one call have the same bits as separate calls, for all extents.
TEST_P(every_device, products_of_several_packets_equal_those_of_each) {
  std::mt19937_64 rng(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(rng);
  };
  for (int round = 0; round < 90; ++round) {
    const std::int64_t packets = draw(2, 9);
    // Every second round uses extents that have their own kernels.
    const bool thin = round % 2 == 0;
    const std::int64_t m = draw(1, 70), n = thin ? 16 * draw(4, 140) : draw(1, 90), k = thin ? 16 * draw(16, 24) : draw(1, 90);
    const auto type = round % 3 == 0 ? dtype::f64 : round % 3 == 1 ? dtype::f32 : dtype::bf16;
    const auto made = [&](shape s, std::uint32_t number) {
      tensor x = gaussian(*dev, s, number, type == dtype::f64 ? dtype::f64 : dtype::f32);
      if (type != dtype::bf16) return x;
      tensor narrow = test::empty(*dev, s, type);
      dev->copy(x, narrow);
      return narrow;
    };
    for (const bool tb : {false, true}) {
      const gemm_spec s{.transpose_b = tb, .m = m, .n = n, .k = k};
      const tensor a = made({packets * m, k}, 1), b = gaussian(*dev, {n, k}, 2, wide_of(type));  // weights have the wide type
      tensor c = test::empty(*dev, {packets * m, n}, type), each = test::empty(*dev, c.dims(), type);
      dev->gemm_stacked(s, packets, a, b, c);
      dev->device::gemm_stacked(s, packets, a, b, each);
      ASSERT_TRUE(same_bits(home(c), home(each))) << packets << " of " << m << " " << n << " " << k << " " << tb;
    }
    const gemm_spec s{.transpose_a = true, .m = k, .n = n, .k = m};  // as in a gradient
    const tensor a = made({packets * m, k}, 3), b = made({packets * m, n}, 4);
    tensor c = test::empty(*dev, {k, n}, wide_of(type)), each = test::empty(*dev, c.dims(), c.type());
    dev->gemm_summed(s, packets, a, b, c);
    dev->device::gemm_summed(s, packets, a, b, each);
    ASSERT_TRUE(same_bits(home(c), home(each))) << packets << " of " << k << " " << n << " " << m;
  }
}

// The tree is the one in which workers add gradients (ops/tree/packet_tree.hpp).
TEST_P(every_device, packets_are_added_in_the_order_of_the_tree) {
  for (std::int64_t packets = 1; packets <= 40; ++packets) {
    int made = 0;
    tensor sum = test::empty(*dev, {1}, dtype::f64);
    const auto value = [](std::int64_t p) { return std::ldexp(1.0 + 1e-3 * static_cast<double>(p), static_cast<int>(p * 7 % 53)); };
    const std::function<double(std::int64_t, std::int64_t)> added = [&](std::int64_t first, std::int64_t count) {
      if (count == 1) return value(first);
      std::int64_t left = 1;
      while (left * 2 < count) left *= 2;
      return added(first, left) + added(first + left, count - left);
    };
    sum_over_packets(*dev, packets, sum, [&](std::int64_t p, tensor& to) {
      ++made;
      dev->fill(value(p), to);
    });
    EXPECT_EQ(made, packets);
    EXPECT_EQ(dev->scalar(sum), added(0, packets)) << packets;
  }
}

}  // namespace
}  // namespace troupe
