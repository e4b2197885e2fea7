// Primitives against naive loops, on every device that there is (device_cases(), support.hpp): each instruction set of this machine, and one
// whose memory the host cannot touch and whose work runs late. And the promise that results depend on values alone.
#include "ops/device.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "ops/packet_sum.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::empty;
using test::gaussian;
using test::tensor_of;

TEST(device, names_its_numerics) {
  const auto dev = make_cpu_device("baseline");
  EXPECT_EQ(dev->name(), "cpu");
  EXPECT_NE(dev->numerics_id().find("/baseline"), std::string::npos);
  EXPECT_EQ(make_cpu_device("pdp-11"), nullptr);
}

TEST(device, without_cuda_says_why) {
  if (cuda_available()) GTEST_SKIP();
  EXPECT_EQ(make_cuda_device(0), nullptr);
  EXPECT_FALSE(cuda_reason().empty());
}

class every_device : public testing::TestWithParam<test::device_case> {
 protected:
  tensor home(const tensor& t) const { return at_home(*dev, t); }
  template <class T = double>
  std::vector<T> values_of(const tensor& t) const {
    return test::values_of<T>(home(t));
  }
  const std::shared_ptr<device> dev = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(contract, every_device, testing::ValuesIn(test::device_cases()),
                         [](const auto& row) { return row.param.name; });

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

// Few rows or short sums have kernels of their own in f32 (ops/cpu/gemm_thin.cpp): against f64, row strides included.
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

// Products of several packets at once, against one after the other: the same bits, whatever their extents.
TEST_P(every_device, products_of_several_packets_are_those_of_each) {
  std::mt19937_64 rng(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(rng);
  };
  for (int round = 0; round < 90; ++round) {
    const std::int64_t packets = draw(2, 9);
    // Every other one of the extents that have kernels of their own.
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
      const tensor a = made({packets * m, k}, 1), b = gaussian(*dev, {n, k}, 2, wide_of(type));  // weights are wide
      tensor c = test::empty(*dev, {packets * m, n}, type), each = test::empty(*dev, c.dims(), type);
      dev->gemm_stacked(s, packets, a, b, c);
      dev->device::gemm_stacked(s, packets, a, b, each);
      ASSERT_TRUE(same_bits(home(c), home(each))) << packets << " of " << m << " " << n << " " << k << " " << tb;
    }
    const gemm_spec s{.transpose_a = true, .m = k, .n = n, .k = m};  // as a gradient has them
    const tensor a = made({packets * m, k}, 3), b = made({packets * m, n}, 4);
    tensor c = test::empty(*dev, {k, n}, wide_of(type)), each = test::empty(*dev, c.dims(), c.type());
    dev->gemm_summed(s, packets, a, b, c);
    dev->device::gemm_summed(s, packets, a, b, each);
    ASSERT_TRUE(same_bits(home(c), home(each))) << packets << " of " << k << " " << n << " " << m;
  }
}

// The tree is that of the gradients that workers add (ops/tree/packet_tree.hpp).
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

TEST_P(every_device, maps_agree_with_the_standard_library) {
  struct row {
    unary f;
    double (*reference)(double);
    double low, high;
  };
  const row rows[] = {{unary::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -30, 30},
                      {unary::tanh, [](double x) { return std::tanh(x); }, -10, 10},
                      {unary::exp, [](double x) { return std::exp(x); }, -80, 80},
                      {unary::log, [](double x) { return std::log(x); }, 1e-6, 1e6},
                      {unary::sqrt, [](double x) { return std::sqrt(x); }, 0, 100},
                      {unary::square, [](double x) { return x * x; }, -5, 5},
                      {unary::absolute, [](double x) { return std::fabs(x); }, -5, 5}};
  for (const auto& r : rows) {
    tensor wide = empty(*dev, {1001}), y = empty(*dev, {1001}), narrow = empty(*dev, {1001}, dtype::f32),
           z = empty(*dev, {1001}, dtype::f32);
    dev->fill_uniform({.key = 1}, r.low, r.high, wide);
    dev->copy(wide, narrow);
    dev->map(r.f, 0.0, wide, y);
    dev->map(r.f, 0.0, narrow, z);
    wide = home(wide), y = home(y), narrow = home(narrow), z = home(z);
    for (std::int64_t i = 0; i < 1001; ++i) {
      const double x = wide.data<double>()[i], xf = static_cast<double>(narrow.data<float>()[i]);
      EXPECT_NEAR(y.data<double>()[i], r.reference(x), 4e-16 * (1 + std::fabs(x)) * std::max(1.0, std::fabs(r.reference(x))))
          << static_cast<int>(r.f) << " " << x;
      EXPECT_NEAR(static_cast<double>(z.data<float>()[i]), r.reference(xf),
                  3e-7 * (1 + std::fabs(xf) / 50) * std::max(1.0, std::fabs(r.reference(xf))))
          << static_cast<int>(r.f) << " " << xf;
    }
  }
}

TEST_P(every_device, exp_log_and_relu_keep_special_values) {
  const double inf = INFINITY;
  const tensor x = tensor_of<float>(*dev, {6}, {INFINITY, -INFINITY, NAN, 0.0F, 1e-42F, -1.0F});
  tensor z = empty(*dev, {6}, dtype::f32);
  dev->map(unary::exp, 0, x, z);
  tensor y = home(z);
  EXPECT_EQ(y.data<float>()[0], inf);
  EXPECT_EQ(y.data<float>()[1], 0);
  EXPECT_TRUE(std::isnan(y.data<float>()[2]));
  EXPECT_EQ(y.data<float>()[3], 1);
  dev->map(unary::log, 0, x, z);
  y = home(z);
  EXPECT_EQ(y.data<float>()[0], inf);
  EXPECT_TRUE(std::isnan(y.data<float>()[1]) && std::isnan(y.data<float>()[2]) && std::isnan(y.data<float>()[5]));
  EXPECT_EQ(y.data<float>()[3], -inf);
  EXPECT_NEAR(y.data<float>()[4], std::log(1e-42F), 1e-4);
  dev->map(unary::relu, 0, x, z);
  y = home(z);
  EXPECT_EQ(y.data<float>()[0], inf);
  EXPECT_EQ(y.data<float>()[1], 0);
  EXPECT_TRUE(std::isnan(y.data<float>()[2]));
}

TEST_P(every_device, sums_rows_columns_and_planes) {
  const tensor x = tensor_of<double>(*dev, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  tensor a = empty(*dev, {3}), b = empty(*dev, {6}), c = empty(*dev, {2});
  dev->reduce_sum(2, 3, 2, x, a);
  EXPECT_EQ(values_of(a), (std::vector<double>{33, 77, 121}));
  dev->reduce_sum(2, 6, 1, x, b);
  EXPECT_EQ(values_of(b), (std::vector<double>{11, 22, 33, 44, 55, 66}));
  dev->reduce_sum(1, 2, 6, x, c);
  EXPECT_EQ(values_of(c), (std::vector<double>{21, 210}));
  EXPECT_EQ(test::squares_of(*dev, x), 91 * 101);
}

TEST_P(every_device, adds_scales_and_picks) {
  const tensor x = tensor_of<double>(*dev, {3}, {1, -2, 3}), y = tensor_of<double>(*dev, {3}, {2, -2, 1});
  tensor z = empty(*dev, {3});
  const std::pair<binary, std::vector<double>> rows[] = {
      {binary::add, {3, -4, 4}}, {binary::subtract, {-1, 0, 2}}, {binary::multiply, {2, 4, 3}}, {binary::maximum, {2, -2, 3}}};
  for (const auto& [op, expected] : rows) {
    dev->apply(op, x, y, z);
    EXPECT_EQ(values_of(z), expected);
  }
  dev->axpy(2.0, x, z);
  EXPECT_EQ(values_of(z), (std::vector<double>{4, -6, 9}));
  dev->scale(0.5, z);
  EXPECT_EQ(values_of(z), (std::vector<double>{2, -3, 4.5}));
  dev->select_equal(x, y, z, z);
  EXPECT_EQ(values_of(z), (std::vector<double>{0, -3, 0}));
}

TEST_P(every_device, converts_between_types_and_copies_blocks) {
  const tensor bytes = tensor_of<std::uint8_t>(*dev, {2, 3}, {0, 1, 2, 253, 254, 255});
  tensor x = empty(*dev, {2, 3}, dtype::f32), columns = empty(*dev, {2, 2}, dtype::f32);
  dev->copy(bytes, x);
  EXPECT_EQ(values_of<float>(x), (std::vector<float>{0, 1, 2, 253, 254, 255}));
  dev->copy_block({.rows = 2, .length = 2, .from_offset = 1, .from_stride = 3, .to_offset = 0, .to_stride = 2}, x, columns);
  EXPECT_EQ(values_of<float>(columns), (std::vector<float>{1, 2, 254, 255}));
}

double largest_difference(const tensor& a, const tensor& b) {
  double d = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const double e = std::fabs(a.data<double>()[i] - b.data<double>()[i]);
    d = std::isnan(e) ? e : std::max(d, e);
  }
  return d;
}

// The device's own convolution against the composition of im2col, gemm and col2im.
TEST_P(every_device, convolution_agrees_with_the_reference) {
  const conv_geometry rows[] = {
      {.batch = 3, .channels = 2, .height = 9, .width = 7, .outputs = 5, .kernel_h = 3, .kernel_w = 2, .pad_h = 1},
      {.batch = 5,
       .channels = 4,
       .height = 12,
       .width = 33,
       .outputs = 30,
       .kernel_h = 5,
       .kernel_w = 5,
       .stride_h = 2,
       .stride_w = 3,
       .pad_h = 2,
       .pad_w = 4,
       .groups = 2},
      {.batch = 2,
       .channels = 3,
       .height = 20,
       .width = 70,
       .outputs = 15,
       .kernel_h = 2,
       .kernel_w = 3,
       .dilation_h = 3,
       .dilation_w = 2},
      {.batch = 70, .channels = 3, .height = 4, .width = 4, .outputs = 29, .kernel_h = 4, .kernel_w = 4},
      {.batch = 1, .channels = 1, .height = 1, .width = 1, .outputs = 1}};
  for (const auto& g : rows) {
    const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
    const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
    const tensor x = gaussian(*dev, xs, 1), w = gaussian(*dev, ws, 2), bias = gaussian(*dev, {g.outputs}, 3),
                 dy = gaussian(*dev, ys, 4);
    tensor y = gaussian(*dev, ys, 5), y2 = gaussian(*dev, ys, 6), dx = gaussian(*dev, xs, 5), dx2 = gaussian(*dev, xs, 6);
    tensor dw = gaussian(*dev, ws, 5), dw2 = gaussian(*dev, ws, 6);
    dev->conv_forward(g, x, w, bias, y);
    dev->device::conv_forward(g, x, w, bias, y2);
    EXPECT_LT(largest_difference(home(y), home(y2)), 1e-11);
    dev->conv_backward_data(g, dy, w, dx);
    dev->device::conv_backward_data(g, dy, w, dx2);
    EXPECT_LT(largest_difference(home(dx), home(dx2)), 1e-11);
    dev->conv_backward_weights(g, x, dy, dw);
    dev->device::conv_backward_weights(g, x, dy, dw2);
    EXPECT_LT(largest_difference(home(dw), home(dw2)), 1e-10);
  }
}

TEST_P(every_device, max_pool_breaks_ties_in_row_order_and_lets_nan_win) {
  const pool_geometry g{
      .height = 2, .width = 4, .out_h = 1, .out_w = 2, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2};
  tensor y = empty(*dev, {2}), index = empty(*dev, {2}, dtype::i32);
  dev->max_pool(g, tensor_of<double>(*dev, {2, 4}, {0, 5, -INFINITY, -INFINITY, 5, 5, -INFINITY, -INFINITY}), y, index);
  EXPECT_EQ(values_of(y), (std::vector<double>{5, -INFINITY}));
  EXPECT_EQ(values_of<std::int32_t>(index), (std::vector<std::int32_t>{1, 2}));
  dev->max_pool(g, tensor_of<double>(*dev, {2, 4}, {0, 5, 7, 1, NAN, 9, 2, 8}), y, index);
  EXPECT_TRUE(std::isnan(values_of(y)[0]));
  EXPECT_EQ(values_of<std::int32_t>(index), (std::vector<std::int32_t>{4, 7}));
}

// Windows and extents around those that have kernels of their own, with many ties; f64 has none of them.
TEST_P(every_device, pooling_of_f32_agrees_with_f64) {
  for (std::int64_t kernel : {1, 2, 3, 4})
    for (std::int64_t width : {3, 4, 5, 6, 7, 31, 32, 33, 34, 35, 55, 63, 64, 65, 66, 67})
      for (const bool ceil : {false, true}) {
        const std::int64_t height = 5 + width % 2;
        if (kernel > std::min(height, width)) continue;
        pool_geometry g{
            .planes = 3, .height = height, .width = width, .kernel_h = kernel, .kernel_w = kernel, .stride_h = 2, .stride_w = 2};
        const auto extent = [&](std::int64_t n) { return std::min((n - kernel + (ceil ? 1 : 0)) / 2 + 1, (n + 1) / 2); };
        g.out_h = extent(height), g.out_w = extent(width);
        const shape xs{3, height, width}, ys{3, g.out_h, g.out_w};
        const auto near = [&](const tensor& narrow, const tensor& wide) {
          const tensor a = home(narrow), b = home(wide);
          for (std::int64_t i = 0; i < a.count(); ++i)
            ASSERT_NEAR(value(a, i), value(b, i), 1e-5) << kernel << " " << width << " " << i;
        };
        auto ties = values_of(gaussian(*dev, xs, 1));
        for (double& v : ties) v = std::round(2 * v) / 2;
        tensor x = tensor_of(*dev, xs, ties), dy = gaussian(*dev, ys, 2, dtype::f32), wide_dy = test::empty(*dev, ys);
        dev->copy(dy, wide_dy);
        tensor narrow = test::empty(*dev, xs, dtype::f32), y = test::empty(*dev, ys, dtype::f32), y2 = test::empty(*dev, ys);
        dev->copy(x, narrow);
        tensor at = test::empty(*dev, ys, dtype::i32), at2 = test::empty(*dev, ys, dtype::i32);
        tensor dx = test::empty(*dev, xs, dtype::f32), dx2 = test::empty(*dev, xs);
        dev->max_pool(g, narrow, y, at);
        dev->max_pool(g, x, y2, at2);
        ASSERT_EQ(values_of<std::int32_t>(at), values_of<std::int32_t>(at2)) << kernel << " " << width << " " << dev->numerics_id();
        dev->max_pool_backward(g, dy, at, dx);
        dev->max_pool_backward(g, wide_dy, at2, dx2);
        near(dx, dx2);
        dev->avg_pool(g, narrow, y);
        dev->avg_pool(g, x, y2);
        near(y, y2);
        dev->avg_pool_backward(g, dy, dx);
        dev->avg_pool_backward(g, wide_dy, dx2);
        near(dx, dx2);
      }
}

TEST_P(every_device, lrn_within_a_channel_of_f32_agrees_with_f64) {
  for (const std::int64_t width : {1, 2, 3, 8, 15, 16, 17, 33}) {
    const lrn_geometry g{.batch = 2, .channels = 2, .height = 4, .width = width, .size = 3, .across_channels = false, .alpha = 0.7};
    const shape s{2, 2, 4, width};
    const tensor x = gaussian(*dev, s, 1, dtype::f32), dy = gaussian(*dev, s, 2, dtype::f32);
    tensor x2 = test::empty(*dev, s), dy2 = test::empty(*dev, s);
    dev->copy(x, x2);
    dev->copy(dy, dy2);
    tensor y = test::empty(*dev, s, dtype::f32), scale = y, dx = y, y2 = test::empty(*dev, s), scale2 = y2, dx2 = y2;
    for (tensor* t : {&y, &scale, &dx}) *t = test::empty(*dev, s, dtype::f32);
    for (tensor* t : {&y2, &scale2, &dx2}) *t = test::empty(*dev, s);
    dev->lrn(g, x, y, scale);
    dev->lrn(g, x2, y2, scale2);
    dev->lrn_backward(g, x, scale, dy, dx);
    dev->lrn_backward(g, x2, scale2, dy2, dx2);
    for (tensor* t : {&y, &y2, &dx, &dx2}) *t = home(*t);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      ASSERT_NEAR(y.data<float>()[i], y2.data<double>()[i], 3e-6) << width;
      ASSERT_NEAR(dx.data<float>()[i], dx2.data<double>()[i], 1e-5) << width;
    }
  }
}

TEST_P(every_device, softmax_loss_leaves_padding_out) {
  const tensor x = tensor_of<double>(*dev, {3, 2}, {0, 0, 1000, 0, 5, 7});
  const tensor labels = tensor_of<std::int32_t>(*dev, {3}, {1, 0, -1});
  tensor p = empty(*dev, {3, 2}), loss = empty(*dev, {1}), one = tensor_of<double>(*dev, {1}, {1}), dx = empty(*dev, {3, 2});
  dev->softmax_loss(x, labels, p, loss);
  EXPECT_NEAR(dev->scalar(loss), std::log(2.0) / 2, 1e-15);
  dev->softmax_loss_backward(p, labels, one, dx);
  const auto d = values_of(dx);
  EXPECT_NEAR(d[0], 0.25, 1e-15);
  EXPECT_NEAR(d[1], -0.25, 1e-15);
  EXPECT_EQ(std::vector<double>(d.begin() + 2, d.end()), (std::vector<double>{0, 0, 0, 0}));
  const tensor none = tensor_of<std::int32_t>(*dev, {3}, {-1, -1, -1});
  dev->softmax_loss(x, none, p, loss);
  EXPECT_EQ(dev->scalar(loss), 0);
  dev->top_k(1, x, labels, loss);
  EXPECT_EQ(dev->scalar(loss), 0.5);  // a tie goes to the lower class
  dev->top_k(2, x, labels, loss);
  EXPECT_EQ(dev->scalar(loss), 1);
}

// One convolution and one product, with every tensor `shift` elements into a larger block.
std::vector<float> shifted_results(device& dev, std::int64_t shift) {
  const auto place = [&](shape s, std::uint64_t key) {
    const tensor values = gaussian(dev, s, key, dtype::f32);
    tensor t = tensor::allocate(dev, shape{s.count() + shift}, dtype::f32).slice(shift, s);
    dev.copy(values, t);
    return t;
  };
  const conv_geometry g{
      .batch = 3, .channels = 3, .height = 11, .width = 13, .outputs = 9, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const tensor x = place({3, 3, 11, 13}, 1), w = place({9, 3, 3, 3}, 2), a = place({33, 39}, 3), b = place({39, 3861}, 4);
  tensor y = place({3, 9, 11, 13}, 5), c = place({33, 3861}, 6), dw = place({9, 3, 3, 3}, 7), sum = place({117}, 8);
  dev.conv_forward(g, x, w, tensor(), y);
  dev.conv_backward_weights(g, x, y, dw);
  dev.gemm({.m = 33, .n = 3861, .k = 39}, a, b, c);
  dev.reduce_sum(1, 117, 33 * 33, c, sum);
  std::vector<float> all;
  for (const tensor* t : {&y, &dw, &c, &sum})
    for (float v : test::values_of<float>(at_home(dev, *t))) all.push_back(v);
  return all;
}

TEST_P(every_device, gives_the_same_bits_at_any_address_and_in_any_thread) {
  const auto expected = shifted_results(*dev, 0);
  for (std::int64_t shift : {1, 3, 5}) {
    std::vector<float> got;
    std::thread([&] { got = shifted_results(*dev, shift); }).join();
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)), 0)
        << dev->numerics_id() << " shifted by " << shift;
  }
}

}  // namespace
}  // namespace troupe
