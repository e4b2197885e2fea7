// Every convolution algorithm against the composition of im2col, gemm and col2im in f64.
#include "ops/cpu/conv_rule.hpp"

#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "ops/tensor_values.hpp"
#include "tests/ops/every_device.hpp"
#include "tests/ops/random_convolutions.hpp"

namespace troupe {
namespace {

using test::every_device;
using test::gaussian;
using test::random_geometry;
using test::text_of;

tensor as(device& d, const tensor& from, dtype t) {
  tensor to = tensor::allocate(d, from.dims(), t);
  d.copy(from, to);
  return to;
}

// The largest difference, relative to the root mean square of the reference.
double distance(const tensor& got, const tensor& right) {
  double worst = 0, squares = 0;
  for (std::int64_t i = 0; i < right.count(); ++i) {
    const double r = right.data<double>()[i],
                 g = got.type() == dtype::f32 ? static_cast<double>(got.data<float>()[i]) : got.data<double>()[i];
    worst = std::isnan(g) ? 1e30 : std::max(worst, std::fabs(g - r));
    squares += r * r;
  }
  return worst / (1e-30 + std::sqrt(squares / static_cast<double>(right.count())));
}

// Inputs of a geometry, and the reference outputs, in f64.
struct reference {
  tensor x, w, bias, dy, y, dx, dw;
};

reference reference_of(device& dev, const conv_geometry& g) {
  const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
  const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
  reference r{.x = as(dev, gaussian(dev, xs, 1, dtype::f32), dtype::f64),
              .w = as(dev, gaussian(dev, ws, 2, dtype::f32), dtype::f64),
              .bias = as(dev, gaussian(dev, {g.outputs}, 3, dtype::f32), dtype::f64),
              .dy = as(dev, gaussian(dev, ys, 4, dtype::f32), dtype::f64),
              .y = test::empty(dev, ys),
              .dx = test::empty(dev, xs),
              .dw = test::empty(dev, ws)};
  dev.device::conv_forward(g, r.x, r.w, r.bias, r.y);
  dev.device::conv_backward_data(g, r.dy, r.w, r.dx);
  dev.device::conv_backward_weights(g, r.x, r.dy, r.dw);
  return r;
}

void check(device& dev, const conv_geometry& g, const reference& r, dtype t, double tolerance) {
  SCOPED_TRACE(name_of(g.algorithm) + ", " + dev.numerics_id() + ", " + text_of(g));
  const tensor x = as(dev, r.x, t), w = as(dev, r.w, t), dy = as(dev, r.dy, t), bias = as(dev, r.bias, t);
  tensor y = test::empty(dev, r.y.dims(), t), dx = test::empty(dev, r.dx.dims(), t), dw = test::empty(dev, r.dw.dims(), t);
  for (tensor* out : {&y, &dx, &dw}) dev.fill(std::nan(""), *out);
  dev.conv_forward(g, x, w, bias, y);
  dev.conv_backward_data(g, dy, w, dx);
  dev.conv_backward_weights(g, x, dy, dw);
  EXPECT_LT(distance(at_home(dev, y), at_home(dev, r.y)), tolerance) << "forward";
  EXPECT_LT(distance(at_home(dev, dx), at_home(dev, r.dx)), tolerance) << "backward, data";
  EXPECT_LT(distance(at_home(dev, dw), at_home(dev, r.dw)), tolerance) << "backward, weights";
}

// oneDNN adds the gradient of the weights pixel by pixel, the other algorithms in blocks.
// Winograd's patches of 6 x 6 have about four times the error of those of 4 x 4; `auto` may choose
// one of them.
double tolerance_of(const conv_geometry& g) {
  using enum conv_algorithm;
  if (g.algorithm == automatic || g.algorithm == winograd4 || (g.algorithm == winograd && g.kernel_h == 5)) return 2e-5;
  return g.algorithm == onednn ? 5e-5 : 1e-5;
}

// The long sums of the reference take most of the time, so one reference serves all algorithms and
// both types.
TEST_P(every_device, every_convolution_algorithm_agrees_with_the_reference) {
  std::mt19937_64 r(7);
  for (int i = 0; i < 150; ++i) {
    conv_geometry g = random_geometry(r);
    const reference right = reference_of(*dev, g);
    for (const auto& name : conv_algorithm_names()) {
      g.algorithm = conv_algorithm_named(name);
      if (!why_not(g.algorithm, g).empty()) continue;
      check(*dev, g, right, dtype::f32, tolerance_of(g));
      check(*dev, g, right, dtype::f64, 1e-12);
      if (HasFailure()) return;
    }
  }
}

// Sums as long as in common nets, where fp32 loses most.
TEST(convolution, every_algorithm_is_accurate_for_long_sums) {
  const auto dev = make_cpu_device();
  conv_geometry g{
      .batch = 2, .channels = 256, .height = 13, .width = 13, .outputs = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const reference right = reference_of(*dev, g);
  for (const auto& name : conv_algorithm_names()) {
    g.algorithm = conv_algorithm_named(name);
    if (why_not(g.algorithm, g).empty()) check(*dev, g, right, dtype::f32, tolerance_of(g));
  }
}

// Images large enough for several blocks of tiles, whose patches overlap at the ends of blocks.
TEST(convolution, winograd_splits_large_images_into_blocks) {
  const auto dev = make_cpu_device();
  for (const std::int64_t kernel : {3, 5})
    for (std::int64_t pad = 0; pad < kernel / 2; ++pad)
      for (const auto a : {conv_algorithm::winograd, conv_algorithm::winograd4}) {
        conv_geometry g{.batch = 2,
                        .channels = 1,
                        .height = 201,
                        .width = 187,
                        .outputs = 2,
                        .kernel_h = kernel,
                        .kernel_w = kernel,
                        .pad_h = pad,
                        .pad_w = pad,
                        .algorithm = a};
        if (why_not(a, g).empty()) check(*dev, g, reference_of(*dev, g), dtype::f32, tolerance_of(g));
      }
}

// Every pass against lowering1, called by several threads at the same time, which share primitives
// and their cache.
TEST(convolution, onednn_agrees_with_lowering1_on_random_geometries_and_in_threads) {
  if (const auto why = why_not(conv_algorithm::onednn, {}); !why.empty()) GTEST_SKIP() << why;
  const auto dev = make_cpu_device();
  std::vector<std::thread> threads;
  std::atomic<int> agreed{0};
  constexpr int rounds = 40;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      std::mt19937_64 r(23);  // the same geometries in all threads
      for (int i = 0; i < rounds; ++i) {
        conv_geometry g = random_geometry(r);
        const shape xs{g.batch, g.channels, g.height, g.width}, ys{g.batch, g.outputs, g.out_h(), g.out_w()};
        const shape ws{g.outputs, g.group_channels(), g.kernel_h, g.kernel_w};
        const tensor x = gaussian(*dev, xs, 1, dtype::f32), w = gaussian(*dev, ws, 2, dtype::f32),
                     bias = gaussian(*dev, {g.outputs}, 3, dtype::f32), dy = gaussian(*dev, ys, 4, dtype::f32);
        std::vector<tensor> results[2];
        for (const auto a : {conv_algorithm::lowering1, conv_algorithm::onednn}) {
          g.algorithm = a;
          tensor y = test::empty(*dev, ys, dtype::f32), y2 = test::empty(*dev, ys, dtype::f32);
          tensor dx = test::empty(*dev, xs, dtype::f32), dw = test::empty(*dev, ws, dtype::f32);
          dev->conv_forward(g, x, w, bias, y);
          dev->conv_forward(g, x, w, tensor(), y2);
          dev->conv_backward_data(g, dy, w, dx);
          dev->conv_backward_weights(g, x, dy, dw);
          results[a == conv_algorithm::onednn] = {y, y2, dx, dw};
        }
        bool all = true;
        for (std::size_t k = 0; k < 4; ++k) {
          const double d = distance(results[1][k], as(*dev, results[0][k], dtype::f64));
          all = all && d < tolerance_of(g);  // g.algorithm is onednn from the loop on
          EXPECT_LT(d, tolerance_of(g)) << k << ": " << text_of(g);
        }
        agreed += all;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(agreed, 3 * rounds);
}

TEST(convolution, onednn_gives_the_same_bits_every_time) {
  if (const auto why = why_not(conv_algorithm::onednn, {}); !why.empty()) GTEST_SKIP() << why;
  const auto dev = make_cpu_device();
  const conv_geometry g{.batch = 5,
                        .channels = 24,
                        .height = 13,
                        .width = 11,
                        .outputs = 40,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .pad_h = 1,
                        .pad_w = 1,
                        .algorithm = conv_algorithm::onednn};
  const shape xs{5, 24, 13, 11}, ys{5, 40, 13, 11}, ws{40, 24, 3, 3};
  const tensor x = gaussian(*dev, xs, 1, dtype::f32), dy = gaussian(*dev, ys, 2, dtype::f32);
  std::vector<float> first;
  for (int i = 0; i < 8; ++i) {
    std::vector<float> got;
    const auto work = [&] {
      const tensor held = test::empty(*dev, {i + 1}, dtype::f32);  // other memory each time
      tensor dw = test::empty(*dev, ws, dtype::f32);
      dev->conv_backward_weights(g, x, dy, dw);
      got = test::values_of<float>(dw);
    };
    if (i % 2 == 0)
      work();
    else
      std::thread(work).join();
    if (i == 0) first = got;
    EXPECT_EQ(got, first);
  }
}

TEST(convolution, onednn_accumulates_gradients) {
  if (const auto why = why_not(conv_algorithm::onednn, {}); !why.empty()) GTEST_SKIP() << why;
  const auto dev = make_cpu_device();
  const shape xs{37, 6, 14, 13}, ys{37, 20, 14, 13}, ws{20, 6, 3, 3};
  conv_geometry g{
      .batch = 37, .channels = 6, .height = 14, .width = 13, .outputs = 20, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  g.algorithm = conv_algorithm::lowering1, g.algorithm_weights = conv_algorithm::onednn;
  const tensor x = gaussian(*dev, xs, 1, dtype::f32), dy = gaussian(*dev, ys, 2, dtype::f32);
  tensor dw = test::empty(*dev, ws, dtype::f32), right = test::empty(*dev, ws, dtype::f32);
  dev->conv_backward_weights(g, x, dy, dw);
  dev->conv_backward_weights(g, x, dy, dw, true);
  g.algorithm_weights.reset();
  dev->conv_backward_weights(g, x, dy, right);
  dev->scale(2.0, right);
  EXPECT_LT(distance(dw, as(*dev, right, dtype::f64)), tolerance_of({.algorithm = conv_algorithm::onednn}));
}

// Each pass can have its own algorithm; "same" means that of `algorithm`.
TEST(convolution, passes_can_have_different_algorithms) {
  const test::stock layers;
  const auto made = [&](std::map<std::string, option_value, std::less<>> more) {
    more["outputs"] = std::int64_t{4}, more["kernel"] = std::int64_t{3};
    const auto l = layers.make("convolution", {more});
    return choice_of(dynamic_cast<const convolving&>(*l).geometry({1, 1, 8, 8}));
  };
  using enum conv_algorithm;
  const auto word = [](const char* w) { return option_value(std::string(w)); };
  EXPECT_EQ(made({}), conv_choice());
  EXPECT_EQ(made({{"algorithm", word("winograd")}}), (conv_choice{winograd, winograd, winograd}));
  EXPECT_EQ(made({{"algorithm", word("direct")}, {"algorithm_weights", word("lowering2")}, {"algorithm_data", word("auto")}}),
            (conv_choice{direct, automatic, lowering2}));
}

TEST(convolution, auto_is_a_supported_algorithm_for_every_geometry) {
  std::mt19937_64 r(11);
  for (int i = 0; i < 2000; ++i) {
    const conv_geometry g = random_geometry(r);
    for (const auto pass : {conv_pass::forward, conv_pass::backward_data, conv_pass::backward_weights})
      for (const auto level : {cpu_level::basic, cpu_level::wide, cpu_level::tiles}) {
        const auto a = automatic_choice(g, pass, level);
        EXPECT_NE(a, conv_algorithm::automatic);
        EXPECT_EQ(why_not(a, g), "") << text_of(g);
      }
  }
}

// The rule chooses the tiles with fewer products, and no Winograd if transforms are used for few
// features.
TEST(convolution, auto_chooses_winograd_where_it_saves_products) {
  const auto chosen = [](std::int64_t features, std::int64_t extent, std::int64_t kernel, cpu_level level) {
    const conv_geometry g{.batch = 4,
                          .channels = features,
                          .height = extent,
                          .width = extent,
                          .outputs = features,
                          .kernel_h = kernel,
                          .kernel_w = kernel,
                          .pad_h = kernel / 2,
                          .pad_w = kernel / 2};
    return automatic_choice(g, conv_pass::forward, level);
  };
  using enum conv_algorithm;
  EXPECT_EQ(chosen(64, 8, 3, cpu_level::wide), winograd4);
  EXPECT_EQ(chosen(64, 2, 3, cpu_level::wide), winograd);
  EXPECT_EQ(chosen(16, 32, 3, cpu_level::wide), winograd4);
  EXPECT_EQ(chosen(32, 16, 5, cpu_level::wide), winograd);
  EXPECT_EQ(chosen(16, 16, 5, cpu_level::wide), winograd);
  EXPECT_EQ(chosen(20, 16, 5, cpu_level::tiles), winograd);  // tiles of bf16x3 would be a third empty
  EXPECT_EQ(chosen(15, 16, 5, cpu_level::wide), lowering1);
  EXPECT_EQ(chosen(64, 8, 7, cpu_level::wide), direct);
  EXPECT_EQ(chosen(64, 8, 3, cpu_level::basic), lowering1);
}

TEST(convolution, unsupported_algorithm_reports_what_it_supports) {
  layer_registry rows;
  add_stock_layers(rows);
  const layer_type* row = rows.find("convolution");
  const auto refusal = [&](options given) -> std::string {
    try {
      (void)row->make(check_options(given, row->specs));
    } catch (const option_error& e) {
      return e.key + ": " + e.what();
    }
    return "";
  };
  using i = std::int64_t;
  const options strided{{{"outputs", i{4}}, {"kernel", i{3}}, {"stride", i{2}}, {"algorithm", std::string("winograd")}}};
  EXPECT_EQ(refusal(strided), "algorithm: winograd requires kernel 3 or 5, stride 1, dilation 1 and less padding than kernel");
  options plain = strided;
  plain.values["stride"] = i{1};
  EXPECT_EQ(refusal(plain), "");
  options wide = plain;
  wide.values["kernel"] = i{5};
  EXPECT_EQ(refusal(wide), "");
  wide.values["algorithm"] = std::string("winograd4");
  EXPECT_EQ(refusal(wide), "algorithm: winograd4 requires kernel 3, stride 1, dilation 1 and less padding than kernel");
}

}  // namespace
}  // namespace troupe
