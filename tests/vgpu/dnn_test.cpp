// Convolutions by cuDNN on the virtual GPU: NVIDIA's library makes the plans, plain loops execute
// them (cudnn.cpp).
#include "ops/cuda/dnn.hpp"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "ops/cuda/bf16_stream.hpp"
#include "tests/ops/random_convolutions.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"
#include "tests/vgpu/properties.hpp"

namespace troupe::vgpu {
namespace {

template <class T>
std::vector<T> dnn_numbers(std::int64_t n, std::mt19937_64& random) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
  return v;
}

// The tensors of one convolution: random inputs, and what the passes compute. `shifted`: tensors
// begin one element behind an aligned address.
template <class T>
struct operands {
  operands(device& dev, const conv_geometry& c, std::mt19937_64 random, bool shifted)
      : d(dev),
        g(c),
        x(made({g.batch, g.channels, g.height, g.width}, random, shifted)),
        w(made({g.outputs, g.group_channels(), g.kernel_h, g.kernel_w}, random, shifted)),
        dy(made({g.batch, g.outputs, g.out_h(), g.out_w()}, random, shifted)),
        bias(made({g.outputs}, random, false)),
        y(made(dy.dims(), random, shifted)),
        dx(made(x.dims(), random, shifted)),
        dw(made(w.dims(), random, shifted)),
        sum(made(w.dims(), random, shifted)) {}
  tensor made(const shape& s, std::mt19937_64& random, bool shifted) const {
    auto t = tensor::allocate(d, {s.count() + 1}, dtype_of<T>).slice(shifted ? 1 : 0, s);
    d.upload(dnn_numbers<T>(s.count(), random).data(), t);
    return t;
  }
  // Adds the gradient of the weights to `sum`.
  void compute() {
    d.conv_forward(g, x, w, bias, y);
    d.conv_backward_data(g, dy, w, dx);
    d.conv_backward_weights(g, x, dy, dw, false);
    d.conv_backward_weights(g, x, dy, sum, true);
  }
  device& d;
  conv_geometry g;
  tensor x, w, dy, bias, y, dx, dw, sum;
};

// tests/ops/conv_test.cpp compares convolutions with the reference, on this device, too.
template <class T>
void address_changes_no_bit(const conv_geometry& g, std::uint64_t seed) {
  SCOPED_TRACE(test::text_of(g));
  reset(options{.seed = seed});
  {
    const auto gpu = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
    operands<T> aligned(*gpu, g, std::mt19937_64(seed), false), shifted(*gpu, g, std::mt19937_64(seed), true);
    auto sum = cpu_values<T>(*gpu, aligned.sum);
    aligned.compute();
    shifted.compute();
    expect_bits("y", cpu_values<T>(*gpu, shifted.y), cpu_values<T>(*gpu, aligned.y));
    expect_bits("dx", cpu_values<T>(*gpu, shifted.dx), cpu_values<T>(*gpu, aligned.dx));
    expect_bits("dw", cpu_values<T>(*gpu, shifted.dw), cpu_values<T>(*gpu, aligned.dw));
    const auto dw = cpu_values<T>(*gpu, aligned.dw);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += dw[i];
    expect_bits("sum", cpu_values<T>(*gpu, aligned.sum), sum);
    expect_bits("sum of unaligned tensors", cpu_values<T>(*gpu, shifted.sum), sum);
  }
  for (const auto& f : findings()) ADD_FAILURE() << f;
}

TEST(gpu_convolution, has_the_same_bits_at_any_address_and_adds_to_a_gradient) {
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto g = test::random_geometry(random);
    address_changes_no_bit<float>(g, i);
    if (i % 3 == 0) address_changes_no_bit<double>(g, i);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(gpu_convolution, is_computed_by_cudnn_unless_a_lowering_is_named) {
  conv_geometry g{.batch = 2, .channels = 3, .height = 8, .width = 8, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
  for (const bool lowered : {false, true}) {
    if (lowered) g.algorithm = conv_algorithm::lowering1;
    reset(options{});
    const auto gpu = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
    operands<float> o(*gpu, g, std::mt19937_64(1), false);
    gpu->conv_forward(g, o.x, o.w, {}, o.y);
    EXPECT_EQ(counted().kernels > 0, lowered);  // im2col is a kernel of Troupe
  }
}

TEST(gpu_convolution, two_streams_have_the_same_bits_in_any_order_of_operations) {
  const conv_geometry g{.batch = 4, .channels = 8, .height = 14, .width = 14, .outputs = 16, .kernel_h = 5, .kernel_w = 5};
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    reset(options{.seed = seed});
    {
      const auto one = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
      const auto two = one->make_stream();
      operands<float> a(*one, g, std::mt19937_64(1), false), b(*two, g, std::mt19937_64(1), false);
      a.compute();
      b.compute();
      const auto dw = cpu_values<float>(*one, a.sum);
      expect_bits("dw", cpu_values<float>(*two, b.sum), dw);
      if (seed == 0) first = dw;
      expect_bits("dw of another order", dw, first);
    }
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
}

// The self-test: a call that exchanges w and y leaves another y.
TEST(gpu_convolution, the_virtual_gpu_notices_exchanged_tensors) {
  const conv_geometry g{.batch = 2, .channels = 3, .height = 6, .width = 6, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
  const auto plan = cuda::plan_conv(cuda::properties_of_text(properties_h100), g, conv_pass::forward, dtype::f32);
  ASSERT_TRUE(plan);
  device_user gpu(std::uint64_t{1});
  constexpr std::size_t outputs = 128;  // more than weights: room for either
  std::mt19937_64 random(1);
  auto *x = gpu.filled(dnn_numbers<float>(216, random)), *w = gpu.filled(dnn_numbers<float>(outputs, random)),
       *y = gpu.memory<float>(outputs), *scratch = gpu.memory<float>(plan->workspace / sizeof(float) + 1);
  const auto before = dnn_numbers<float>(outputs, random);
  auto* exchanged = gpu.filled(before);
  cuda::dnn d(gpu.stream);
  d.run(*plan, x, w, y, scratch);
  d.run(*plan, x, exchanged, w, scratch);
  EXPECT_FALSE(identical(gpu.read(exchanged, outputs), gpu.read(y, outputs)));
  expect_bits("unwritten y", gpu.read(exchanged, outputs), before);
}

// The self-test: a plan is given x, w, y or a workspace of one byte too few.
TEST(gpu_convolution, the_virtual_gpu_notices_blocks_that_are_too_small) {
  const conv_geometry g{.batch = 128, .channels = 64, .height = 28, .width = 28, .outputs = 64, .kernel_h = 3, .kernel_w = 3};
  const auto plan =
      cuda::plan_conv(cuda::properties_of_text(properties_h100), g, conv_pass::forward, dtype::bf16, {.tensor_cores = true});
  ASSERT_TRUE(plan && plan->workspace > 0);
  const std::array<std::size_t, 4> sizes{128 * 64 * 28 * 28 * 2, 64 * 64 * 3 * 3 * 2, 128 * 64 * 26 * 26 * 2, plan->workspace};
  for (std::size_t small = 0; small < 4; ++small) {
    device_user gpu(std::uint64_t{1});
    std::array<std::byte*, 4> at{};
    for (std::size_t i = 0; i < 4; ++i) at[i] = gpu.memory<std::byte>(sizes[i] - (i == small ? 1 : 0));
    cuda::dnn(gpu.stream).run(*plan, at[0], at[1], at[2], at[3]);
    ASSERT_EQ(findings().size(), 1u) << small;
    EXPECT_EQ(findings()[0], "a convolution uses " + std::to_string(sizes[small]) + " bytes of a block that has " +
                                 std::to_string(sizes[small] - 1));
  }
}

TEST(gpu_plans, are_deterministic_in_true_f32_and_within_the_workspace_on_three_gpus) {
  for (const auto* text : {properties_a100, properties_h100, properties_b200}) {
    const auto properties = cuda::properties_of_text(text);
    std::mt19937_64 random(2);
    for (int i = 0; i < 40; ++i) {
      const auto g = test::random_geometry(random);
      for (const auto pass : {conv_pass::forward, conv_pass::backward_data, conv_pass::backward_weights})
        for (const auto type : {dtype::f32, dtype::f64}) {
          const auto p = cuda::plan_conv(properties, g, pass, type);
          ASSERT_TRUE(p) << test::text_of(g) << ", pass " << static_cast<int>(pass) << " of " << text;
          EXPECT_FALSE(p->tensor_cores);
          EXPECT_LE(p->workspace, cuda::conv_rules{}.workspace);
        }
    }
  }
}

// AlexNet's first layer: the engine that is fastest by cuDNN's estimate wants hundreds of MB.
TEST(gpu_plans, obey_a_smaller_workspace_by_another_engine) {
  const auto properties = cuda::properties_of_text(properties_h100);
  const conv_geometry g{.batch = 256,
                        .channels = 3,
                        .height = 227,
                        .width = 227,
                        .outputs = 96,
                        .kernel_h = 11,
                        .kernel_w = 11,
                        .stride_h = 4,
                        .stride_w = 4};
  const auto wide = cuda::plan_conv(properties, g, conv_pass::forward, dtype::f32,
                                    {.deterministic = false, .tensor_cores = true, .workspace = std::size_t{1} << 40});
  ASSERT_TRUE(wide);
  EXPECT_GT(wide->workspace, std::size_t{64} << 20);
  const auto narrow = cuda::plan_conv(properties, g, conv_pass::forward, dtype::f32,
                                      {.deterministic = false, .tensor_cores = true, .workspace = wide->workspace - 1});
  ASSERT_TRUE(narrow);
  EXPECT_LT(narrow->workspace, wide->workspace);
  EXPECT_GT(narrow->considered, wide->considered);
}

TEST(gpu_plans, report_properties_that_cudnn_cannot_read) {
  try {
    cuda::properties_of_text("{}");
    FAIL() << "accepted";
  } catch (const cuda::dnn_error& e) {
    EXPECT_NE(std::string(e.what()).find("cuDNN: "), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace troupe::vgpu
