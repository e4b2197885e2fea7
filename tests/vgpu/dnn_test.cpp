// Convolutions by cuDNN on the virtual GPU: NVIDIA's library makes the plans, plain loops execute
// them (cudnn.cpp).
#include "ops/cuda/dnn.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ops/cuda/bf16_stream.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"
#include "tests/vgpu/properties.hpp"

namespace troupe::vgpu {
namespace {

conv_geometry random_geometry(std::mt19937_64& random) {
  const auto from = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  for (;;) {
    conv_geometry g;
    g.groups = from(1, 3) == 3 ? from(2, 3) : 1;
    g.batch = from(1, 4), g.channels = g.groups * from(1, 4), g.outputs = g.groups * from(1, 4);
    g.height = from(1, 12), g.width = from(1, 12);
    g.kernel_h = from(1, 5), g.kernel_w = from(1, 5);
    g.stride_h = from(1, 3), g.stride_w = from(1, 3), g.pad_h = from(0, 2), g.pad_w = from(0, 2);
    g.dilation_h = from(1, 2), g.dilation_w = from(1, 2);
    const auto fits = [](std::int64_t in, std::int64_t pad, std::int64_t dilation, std::int64_t kernel) {
      return in + 2 * pad >= dilation * (kernel - 1) + 1;
    };
    if (fits(g.height, g.pad_h, g.dilation_h, g.kernel_h) && fits(g.width, g.pad_w, g.dilation_w, g.kernel_w)) return g;
  }
}

std::string text_of(const conv_geometry& g) {
  std::string s;
  for (const auto v : {g.batch, g.channels, g.height, g.width, g.outputs, g.kernel_h, g.kernel_w, g.stride_h, g.stride_w, g.pad_h,
                       g.pad_w, g.dilation_h, g.dilation_w, g.groups})
    s += std::to_string(v) + " ";
  return s;
}

template <class T>
std::vector<T> dnn_numbers(std::int64_t n, std::mt19937_64& random) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (auto& x : v) x = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
  return v;
}

// The tensors of one convolution on one device, with room for one element before each. `shift`
// tensors begin at that element, and so are not aligned.
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
        added(made(w.dims(), random, shifted)) {}
  tensor made(const shape& s, std::mt19937_64& random, bool shifted) const {
    const auto v = dnn_numbers<T>(s.count() + 1, random);
    auto t = tensor::allocate(d, {s.count() + 1}, dtype_of<T>);
    d.upload(v.data(), t);
    return t.slice(shifted ? 1 : 0, s);
  }
  void compute() {
    d.conv_forward(g, x, w, bias, y);
    d.conv_backward_data(g, dy, w, dx);
    d.conv_backward_weights(g, x, dy, dw, false);
    d.conv_backward_weights(g, x, dy, added, true);
  }
  device& d;
  conv_geometry g;
  tensor x, w, dy, bias, y, dx, dw, added;
};

template <class T>
void convolution_agrees(const conv_geometry& g, std::uint64_t seed, bool shifted) {
  SCOPED_TRACE(text_of(g) + (shifted ? "not aligned" : ""));
  reset(options{.seed = seed});
  const auto cpu = make_cpu_device("baseline");
  operands<T> want(*cpu, g, std::mt19937_64(seed), false);
  want.compute();
  {
    const auto gpu = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
    // The host's tensors are what both devices begin with, wherever they are in memory.
    operands<T> got(*gpu, g, std::mt19937_64(seed), shifted);
    for (auto [to, from] : {std::pair{&got.x, &want.x}, {&got.w, &want.w}, {&got.dy, &want.dy}}) gpu->upload(from->raw(), *to);
    std::mt19937_64 random(seed);
    operands<T> fresh(*cpu, g, random, false);
    gpu->upload(fresh.added.raw(), got.added);
    got.compute();
    expect_close("y", cpu_values<T>(*gpu, got.y), cpu_values<T>(*cpu, want.y));
    expect_close("dx", cpu_values<T>(*gpu, got.dx), cpu_values<T>(*cpu, want.dx));
    expect_close("dw", cpu_values<T>(*gpu, got.dw), cpu_values<T>(*cpu, want.dw));
    expect_close("added dw", cpu_values<T>(*gpu, got.added), cpu_values<T>(*cpu, want.added));
  }
  for (const auto& f : findings()) ADD_FAILURE() << f;
}

TEST(gpu_convolution, agrees_with_the_cpu_for_random_geometries) {
  std::mt19937_64 random(1);
  for (std::uint64_t i = 0; i < 150; ++i) {
    const auto g = random_geometry(random);
    convolution_agrees<float>(g, i, i % 3 == 0);
    if (i % 3 == 0) convolution_agrees<double>(g, i, i % 2 == 0);
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
      const auto dw = cpu_values<float>(*one, a.added);
      expect_bits("dw", cpu_values<float>(*two, b.added), dw);
      if (seed == 0) first = dw;
      expect_bits("dw of another order", dw, first);
    }
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
}

// The self-test: if the addresses of w and y changed places, the results would be wrong.
TEST(gpu_convolution, the_virtual_gpu_notices_exchanged_tensors) {
  const conv_geometry g{.batch = 2, .channels = 3, .height = 6, .width = 6, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
  const auto plan = cuda::plan_conv(cuda::properties_of_text(properties_h100), g, conv_pass::forward, dtype::f32);
  ASSERT_TRUE(plan);
  device_user gpu(std::uint64_t{1});
  std::mt19937_64 random(1);
  auto *x = gpu.filled(dnn_numbers<float>(216, random)), *w = gpu.filled(dnn_numbers<float>(108, random)),
       *y = gpu.filled(dnn_numbers<float>(128, random)), *scratch = gpu.memory<float>(plan->workspace / sizeof(float) + 4);
  cuda::dnn d(gpu.stream);
  d.run(*plan, x, w, y, scratch);
  const auto right = gpu.read(y, 108);
  d.run(*plan, x, y, w, scratch);
  EXPECT_FALSE(identical(gpu.read(w, 108), right));
}

TEST(gpu_plans, are_deterministic_in_true_f32_and_within_the_workspace_on_three_gpus) {
  for (const auto* text : {properties_a100, properties_h100, properties_b200}) {
    const auto properties = cuda::properties_of_text(text);
    std::mt19937_64 random(2);
    for (int i = 0; i < 40; ++i) {
      const auto g = random_geometry(random);
      for (const auto pass : {conv_pass::forward, conv_pass::backward_data, conv_pass::backward_weights})
        for (const auto type : {dtype::f32, dtype::f64}) {
          const auto p = cuda::plan_conv(properties, g, pass, type);
          ASSERT_TRUE(p) << text_of(g) << "pass " << static_cast<int>(pass) << " of " << text;
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
