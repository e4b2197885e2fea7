// The algorithm bf16x3: its accuracy against f32, its results for extreme numbers, and reproducible
// bits. conv_test.cpp covers all geometries.
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "ops/cpu/conv_rule.hpp"
#include "ops/tensor_values.hpp"
#include "tests/ops/support.hpp"

namespace troupe {
namespace {

using test::gaussian;

conv_geometry of_resnet(conv_algorithm a) {
  return {.batch = 5,
          .channels = 48,
          .height = 11,
          .width = 16,
          .outputs = 40,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_h = 1,
          .pad_w = 1,
          .algorithm = a};
}

struct passes {
  tensor y, dx, dw;
};

struct operands {
  tensor x, w, dy;
  operands(device& d, const conv_geometry& g)
      : x(gaussian(d, {g.batch, g.channels, g.height, g.width}, 1, dtype::f32)),
        w(gaussian(d, {g.outputs, g.group_channels(), g.kernel_h, g.kernel_w}, 2, dtype::f32)),
        dy(gaussian(d, {g.batch, g.outputs, g.out_h(), g.out_w()}, 3, dtype::f32)) {}
};

passes computed(device& d, const conv_geometry& g, const operands& o) {
  passes p{test::empty(d, o.dy.dims(), o.x.type()), test::empty(d, o.x.dims(), o.x.type()), test::empty(d, o.w.dims(), o.x.type())};
  d.conv_forward(g, o.x, o.w, {}, p.y);
  d.conv_backward_data(g, o.dy, o.w, p.dx);
  d.conv_backward_weights(g, o.x, o.dy, p.dw);
  return p;
}

double root_mean_square_error(const tensor& got, const tensor& right) {
  double squares = 0;
  for (std::int64_t i = 0; i < right.count(); ++i) {
    const double e = static_cast<double>(got.data<float>()[i]) - right.data<double>()[i];
    squares += e * e;
  }
  return std::sqrt(squares / static_cast<double>(right.count()));
}

tensor widened(device& d, const tensor& t) {
  tensor to = tensor::allocate(d, t.dims(), dtype::f64);
  d.copy(t, to);
  return to;
}

class bf16x3 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = why_not(conv_algorithm::bf16x3, {}); !why.empty()) GTEST_SKIP() << why;
  }
  const std::unique_ptr<device> dev_ = make_cpu_device();
};

TEST_F(bf16x3, error_is_no_larger_than_that_of_f32) {
  const auto g = of_resnet(conv_algorithm::bf16x3), plain = of_resnet(conv_algorithm::lowering1);
  operands o(*dev_, g);
  const passes got = computed(*dev_, g, o), f32 = computed(*dev_, plain, o);
  operands wide = o;
  for (tensor* t : {&wide.x, &wide.w, &wide.dy}) *t = widened(*dev_, *t);
  const passes right = computed(*dev_, plain, wide);
  const auto compare = [](const char* what, const tensor& a, const tensor& b, const tensor& exact) {
    const double mine = root_mean_square_error(a, exact), theirs = root_mean_square_error(b, exact);
    EXPECT_LT(mine, 1.5 * theirs) << what;
    EXPECT_GT(mine, 0.0) << what;
  };
  compare("forward", got.y, f32.y, right.y);
  compare("data", got.dx, f32.dx, right.dx);
  compare("weights", got.dw, f32.dw, right.dw);
}

// The parts of integers below 2^24 are integers, and products with powers of two lose no part.
TEST_F(bf16x3, is_exact_where_f32_is) {
  conv_geometry g = of_resnet(conv_algorithm::bf16x3);
  operands o(*dev_, g);
  for (std::int64_t i = 0; i < o.x.count(); ++i) o.x.mutable_data<float>()[i] = static_cast<float>((i * 7919) % 4001 - 2000);
  for (std::int64_t i = 0; i < o.w.count(); ++i)
    o.w.mutable_data<float>()[i] = static_cast<float>(1 << (i % 3)) * (i % 2 ? 1.0F : -1.0F);
  const passes got = computed(*dev_, g, o);
  g.algorithm = conv_algorithm::lowering1;
  EXPECT_EQ(test::values_of<float>(got.y), test::values_of<float>(computed(*dev_, g, o).y));
}

TEST_F(bf16x3, gives_nan_for_extremes_and_zero_for_tiny_numbers) {
  const conv_geometry g{.batch = 1, .channels = 16, .height = 1, .width = 16, .outputs = 16, .algorithm = conv_algorithm::bf16x3};
  operands o(*dev_, g);
  dev_->fill(1.0, o.x);
  dev_->fill(1.0, o.w);
  float* x = o.x.mutable_data<float>();
  x[0] = std::nanf(""), x[1] = std::numeric_limits<float>::infinity(), x[2] = -std::numeric_limits<float>::infinity();
  x[3] = 1e38F, x[4] = -1e-40F, x[5] = std::bit_cast<float>(0x7fffffffU), x[6] = std::bit_cast<float>(0xffffffffU);
  const passes p = computed(*dev_, g, o);
  const float* y = p.y.data<float>();
  for (const int i : {0, 1, 2, 5, 6}) EXPECT_FALSE(std::isfinite(y[i])) << i;
  EXPECT_FLOAT_EQ(y[3], 1e38F);
  EXPECT_EQ(y[4], 15.0F);
  EXPECT_EQ(y[7], 16.0F);
}

// Bits do not depend on images that are computed together, or on the thread.
TEST_F(bf16x3, bits_of_an_image_do_not_depend_on_other_images_or_threads) {
  for (const std::int64_t width : {16, 5}) {
    conv_geometry g = of_resnet(conv_algorithm::bf16x3);
    g.width = width;
    const operands o(*dev_, g);
    const passes all = computed(*dev_, g, o);
    g.batch = 1;
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto part = [&](const tensor& t) {
        const shape s{1, t.dims()[1], t.dims()[2], t.dims()[3]};
        return t.slice(i * s.count(), s);
      };
      operands one = o;
      one.x = part(o.x), one.dy = part(o.dy);
      passes p;
      std::thread([&] { p = computed(*dev_, g, one); }).join();
      EXPECT_EQ(test::values_of<float>(p.y), test::values_of<float>(part(all.y))) << width << " " << i;
      EXPECT_EQ(test::values_of<float>(p.dx), test::values_of<float>(part(all.dx))) << width << " " << i;
    }
  }
}

TEST_F(bf16x3, accumulates_gradients) {
  const auto g = of_resnet(conv_algorithm::bf16x3);
  const operands o(*dev_, g);
  tensor dw = test::empty(*dev_, o.w.dims(), dtype::f32), once = test::empty(*dev_, o.w.dims(), dtype::f32);
  dev_->conv_backward_weights(g, o.x, o.dy, once);
  dev_->copy(once, dw);
  dev_->conv_backward_weights(g, o.x, o.dy, dw, true);
  dev_->scale(2.0, once);
  EXPECT_EQ(test::values_of<float>(dw), test::values_of<float>(once));
}

TEST_F(bf16x3, is_chosen_by_auto_for_full_tiles_and_named_in_the_numerics_id) {
  conv_geometry g = of_resnet(conv_algorithm::automatic);
  EXPECT_EQ(automatic_choice(g, conv_pass::forward, cpu_level::tiles), conv_algorithm::winograd4) << "many channels";
  EXPECT_EQ(automatic_choice(g, conv_pass::backward_weights, cpu_level::tiles), conv_algorithm::bf16x3);
  g.channels = 16;
  for (const auto pass : conv_passes_all) EXPECT_EQ(automatic_choice(g, pass, cpu_level::tiles), conv_algorithm::bf16x3);
  for (const auto pass : conv_passes_all) EXPECT_NE(automatic_choice(g, pass, cpu_level::wide), conv_algorithm::bf16x3);
  g.channels = 3;
  for (const auto pass : conv_passes_all) EXPECT_NE(automatic_choice(g, pass, cpu_level::tiles), conv_algorithm::bf16x3);
  EXPECT_NE(dev_->numerics_id().find("/amx"), std::string::npos);
  EXPECT_EQ(make_cpu_device("x86-64-v4")->numerics_id().find("/amx"), std::string::npos)
      << "a pinned instruction set gives equal bits on different machines";
  EXPECT_EQ(make_cpu_device("x86-64-v4-amx")->numerics_id(), dev_->numerics_id());
}

}  // namespace
}  // namespace troupe
