// Primitives against naive loops, on every available device (device_cases(), support.hpp): each
// instruction set of this machine, and one whose memory the host cannot access and whose work runs
// late. Also tests that results depend only on values. (Products: device_products_test.cpp.)
#include "ops/device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include "ops/tensor_values.hpp"
#include "tests/ops/every_device.hpp"

namespace troupe {
namespace {

using test::empty;
using test::every_device;
using test::gaussian;
using test::tensor_of;

TEST(device, reports_its_numerics_id) {
  const auto dev = make_cpu_device("baseline");
  EXPECT_EQ(dev->name(), "cpu");
  EXPECT_NE(dev->numerics_id().find("/baseline"), std::string::npos);
  EXPECT_EQ(make_cpu_device("pdp-11"), nullptr);
}

// Also for the tests of device_products_test.cpp and conv_test.cpp.
INSTANTIATE_TEST_SUITE_P(contract, every_device, testing::ValuesIn(test::device_cases()),
                         [](const auto& row) { return row.param.name; });

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

TEST_P(every_device, adds_scales_and_selects) {
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

// The device's convolution against the composition of im2col, gemm and col2im.
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

// Pooling of three planes in f32 and f64, with many ties. f64 has no kernels of its own for special
// windows.
void pooling_agrees(device& dev, const pool_geometry& g) {
  const auto about = dev.numerics_id() + ", image " + shape{g.height, g.width}.to_string() + ", kernel " +
                     shape{g.kernel_h, g.kernel_w}.to_string() + ", stride " + shape{g.stride_h, g.stride_w}.to_string() +
                     ", pad " + shape{g.pad_h, g.pad_w}.to_string();
  SCOPED_TRACE(about);
  const shape xs{3, g.height, g.width}, ys{3, g.out_h, g.out_w};
  const auto near = [&](const tensor& narrow, const tensor& wide) {
    const tensor a = at_home(dev, narrow), b = at_home(dev, wide);
    for (std::int64_t i = 0; i < a.count(); ++i) ASSERT_NEAR(value(a, i), value(b, i), 1e-5) << i;
  };
  auto ties = test::values_of<double>(at_home(dev, gaussian(dev, xs, 1)));
  for (double& v : ties) v = std::round(2 * v) / 2;
  tensor x = tensor_of(dev, xs, ties), dy = gaussian(dev, ys, 2, dtype::f32), wide_dy = test::empty(dev, ys);
  dev.copy(dy, wide_dy);
  tensor narrow = test::empty(dev, xs, dtype::f32), y = test::empty(dev, ys, dtype::f32), y2 = test::empty(dev, ys);
  dev.copy(x, narrow);
  tensor at = test::empty(dev, ys, dtype::i32), at2 = test::empty(dev, ys, dtype::i32);
  tensor dx = test::empty(dev, xs, dtype::f32), dx2 = test::empty(dev, xs);
  dev.max_pool(g, narrow, y, at);
  dev.max_pool(g, x, y2, at2);
  ASSERT_EQ(test::values_of<std::int32_t>(at_home(dev, at)), test::values_of<std::int32_t>(at_home(dev, at2)));
  near(y, y2);
  dev.max_pool_backward(g, dy, at, dx);
  dev.max_pool_backward(g, wide_dy, at2, dx2);
  near(dx, dx2);
  dev.avg_pool(g, narrow, y);
  dev.avg_pool(g, x, y2);
  near(y, y2);
  dev.avg_pool_backward(g, dy, dx);
  dev.avg_pool_backward(g, wide_dy, dx2);
  near(dx, dx2);
}

// Windows and extents near those that have their own kernels.
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
        pooling_agrees(*dev, g);
        if (HasFailure()) return;
      }
}

TEST_P(every_device, pooling_of_f32_agrees_with_f64_when_windows_differ_by_axis) {
  std::mt19937_64 random(3);
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)) + 1; };
  for (int k = 0; k < 200; ++k) {
    pool_geometry g{.planes = 3, .height = upto(9), .width = upto(70)};
    g.kernel_h = upto(std::min<std::int64_t>(g.height, 4)), g.kernel_w = upto(std::min<std::int64_t>(g.width, 5));
    g.stride_h = upto(3), g.stride_w = upto(4), g.pad_h = upto(g.kernel_h) - 1, g.pad_w = upto(g.kernel_w) - 1;
    g.out_h = (g.height + 2 * g.pad_h - g.kernel_h) / g.stride_h + 1,
    g.out_w = (g.width + 2 * g.pad_w - g.kernel_w) / g.stride_w + 1;
    g.count_padding = random() % 2 == 0;
    pooling_agrees(*dev, g);
    if (HasFailure()) return;
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

TEST_P(every_device, softmax_loss_ignores_padding) {
  const tensor x = tensor_of<double>(*dev, {3, 2}, {0, 0, 1000, 0, 5, 7});
  const tensor labels = tensor_of<std::int32_t>(*dev, {3}, {1, 0, -1});
  tensor p = empty(*dev, {3, 2}), loss = empty(*dev, {1}), one = tensor_of<double>(*dev, {1}, {1}), dx = empty(*dev, {3, 2});
  dev->softmax_loss(0, {}, x, labels, p, loss);
  EXPECT_NEAR(dev->scalar(loss), std::log(2.0) / 2, 1e-15);
  dev->softmax_loss_backward(0, {}, p, labels, one, dx);
  const auto d = values_of(dx);
  EXPECT_NEAR(d[0], 0.25, 1e-15);
  EXPECT_NEAR(d[1], -0.25, 1e-15);
  EXPECT_EQ(std::vector<double>(d.begin() + 2, d.end()), (std::vector<double>{0, 0, 0, 0}));
  const tensor none = tensor_of<std::int32_t>(*dev, {3}, {-1, -1, -1});
  dev->softmax_loss(0, {}, x, none, p, loss);
  EXPECT_EQ(dev->scalar(loss), 0);
  dev->softmax_loss(0.1, {}, x, none, p, loss);
  EXPECT_EQ(dev->scalar(loss), 0);
  dev->top_k(1, x, labels, loss);
  EXPECT_EQ(dev->scalar(loss), 0.5);  // on a tie the lower class ranks first
  dev->top_k(2, x, labels, loss);
  EXPECT_EQ(dev->scalar(loss), 1);
}

// As torch.nn.CrossEntropyLoss(weight = w, label_smoothing = s): see tests/interop for torch
// itself.
TEST_P(every_device, softmax_loss_weighs_classes) {
  const std::vector<double> scores{0.5, -1, 2, 1, 0.25, 3, 5, 7, 6}, by_class{2, 0.5, 3};
  const std::vector<std::int32_t> of{1, 2, -1};
  const tensor x = tensor_of<double>(*dev, {3, 3}, scores), labels = tensor_of<std::int32_t>(*dev, {3}, of);
  const tensor weights = tensor_of<double>(*dev, {3}, by_class);
  for (const double smoothing : {0.0, 0.3}) {
    tensor p = empty(*dev, {3, 3}), loss = empty(*dev, {1}), one = tensor_of<double>(*dev, {1}, {1}), dx = empty(*dev, {3, 3});
    dev->softmax_loss(smoothing, weights, x, labels, p, loss);
    dev->softmax_loss_backward(smoothing, weights, p, labels, one, dx);
    const auto slope = values_of(dx);
    const double divisor = by_class[1] + by_class[2];
    double want = 0;
    for (std::size_t r = 0; r < 2; ++r) {
      double sum = 0, of_targets = 0;
      std::vector<double> t(3);
      for (std::size_t c = 0; c < 3; ++c) {
        sum += std::exp(scores[3 * r + c]);
        t[c] = by_class[c] * ((static_cast<std::int32_t>(c) == of[r] ? 1 - smoothing : 0) + smoothing / 3);
        of_targets += t[c];
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const double q = std::exp(scores[3 * r + c]) / sum;
        want -= t[c] * std::log(q) / divisor;
        EXPECT_NEAR(slope[3 * r + c], (of_targets * q - t[c]) / divisor, 1e-15);
      }
    }
    EXPECT_NEAR(dev->scalar(loss), want, 1e-14);
    EXPECT_EQ(std::vector<double>(slope.begin() + 6, slope.end()), (std::vector<double>{0, 0, 0}));
  }
  tensor p = empty(*dev, {3, 3}), loss = empty(*dev, {1});
  dev->softmax_loss(0, tensor_of<double>(*dev, {3}, {1, 0, 0}), x, labels, p, loss);
  EXPECT_EQ(dev->scalar(loss), 0) << "no label has a weight";
}

// -(sum over the classes of t log p), with t of `smoothing`, and (p - t) / 2 for two valid rows.
TEST_P(every_device, softmax_loss_spreads_smoothed_targets_over_all_classes) {
  const std::vector<double> scores{0.5, -1, 2, 40, 41, 39, 5, 7, 6}, rows{1, 0, -1};
  const tensor x = tensor_of<double>(*dev, {3, 3}, scores), labels = tensor_of<std::int32_t>(*dev, {3}, {1, 0, -1});
  for (const double smoothing : {0.1, 0.5, 1.0}) {
    tensor p = empty(*dev, {3, 3}), loss = empty(*dev, {1}), one = tensor_of<double>(*dev, {1}, {1}), dx = empty(*dev, {3, 3});
    dev->softmax_loss(smoothing, {}, x, labels, p, loss);
    dev->softmax_loss_backward(smoothing, {}, p, labels, one, dx);
    const auto slope = values_of(dx);
    double want = 0;
    for (std::size_t r = 0; r < 2; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) sum += std::exp(scores[3 * r + c]);
      for (std::size_t c = 0; c < 3; ++c) {
        const double q = std::exp(scores[3 * r + c]) / sum,
                     t = (static_cast<double>(c) == rows[r] ? 1 - smoothing : 0) + smoothing / 3;
        want -= t * std::log(q) / 2;
        EXPECT_NEAR(slope[3 * r + c], (q - t) / 2, 1e-15);
      }
    }
    EXPECT_NEAR(dev->scalar(loss), want, 1e-14);
    EXPECT_EQ(std::vector<double>(slope.begin() + 6, slope.end()), (std::vector<double>{0, 0, 0}));
  }
}

// One convolution and one product, with every tensor offset by `shift` elements in a larger block.
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
