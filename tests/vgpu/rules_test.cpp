// Products and convolutions of bf16 on the virtual GPU, against the CPU, and the rules of
// ops/maths_rules.hpp: TF32 and the workspace of convolutions.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <utility>

#include "ops/converted.hpp"
#include "ops/cuda/bf16_stream.hpp"
#include "tests/ops/random_convolutions.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/properties.hpp"
#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

using floats = std::vector<float>;
constexpr double one_rounding = 0x1p-8, f32_sums = 1e-5;  // of the largest magnitude

// Numbers of the generator as a tensor of this type.
tensor drawn(device& d, const shape& s, dtype t, std::mt19937_64& random) {
  floats v(static_cast<std::size_t>(s.count()));
  for (auto& x : v) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return converted_to(d, cpu_tensor(d, s, v), t);
}
floats in_floats(device& d, const tensor& t) { return cpu_values<float>(d, converted_to(d, t, dtype::f32)); }

// The largest difference, as a share of the largest magnitude of `want`.
double distance(const floats& got, const floats& want) {
  if (got.size() != want.size()) return 1e9;
  double largest = 0, most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    const auto apart = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    most = apart <= most ? most : apart;  // a NaN remains
  }
  return largest == 0 ? most : most / largest;
}

struct product_of {
  gemm_spec s;
  dtype a, b, c;
};
// c = alpha op(a) op(b) + beta c of numbers that depend on the seed only.
floats computed(device& d, const product_of& p, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto a = drawn(d, {p.s.m, p.s.k}, p.a, random), b = drawn(d, {p.s.k, p.s.n}, p.b, random);
  auto c = drawn(d, {p.s.m, p.s.n}, p.c, random);
  d.gemm(p.s, a, b, c);
  return in_floats(d, c);
}

// The three passes of one convolution on numbers that depend on the seed only.
struct passes {
  passes(device& d, const conv_geometry& g, dtype activations, dtype weights, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto made = [&](const shape& s, dtype t) { return drawn(d, s, t, random); };
    const auto x = made({g.batch, g.channels, g.height, g.width}, activations);
    const auto w = made({g.outputs, g.group_channels(), g.kernel_h, g.kernel_w}, weights);
    const auto dy = made({g.batch, g.outputs, g.out_h(), g.out_w()}, activations), bias = made({g.outputs}, weights);
    auto out = made(dy.dims(), activations), with_bias = made(dy.dims(), activations), in = made(x.dims(), activations);
    auto slope = made(w.dims(), weights), sum = made(w.dims(), weights);
    d.conv_forward(g, x, w, {}, out);
    d.conv_forward(g, x, w, bias, with_bias);
    d.conv_backward_data(g, dy, w, in);
    d.conv_backward_weights(g, x, dy, slope, false);
    d.conv_backward_weights(g, x, dy, sum, true);
    y = in_floats(d, out), biased = in_floats(d, with_bias), dx = in_floats(d, in), dw = in_floats(d, slope),
    added = in_floats(d, sum);
  }
  floats y, biased, dx, dw, added;
};

// cuDNN's first engines for all its passes in TF32 use tensor cores.
const conv_geometry in_tf32{.batch = 4, .channels = 64, .height = 8, .width = 8, .outputs = 32, .kernel_h = 3, .kernel_w = 3};

class gpu_maths : public testing::Test {
 protected:
  ~gpu_maths() override {
    gpu_.reset();
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
  std::shared_ptr<device> stream(const maths_rules& r = {}) const {
    auto made = gpu_->make_stream();
    made->set_rules(r);
    return made;
  }
  // Of the same numbers on the CPU and on a stream of the GPU.
  double from_the_cpu(const product_of& p, std::uint64_t seed) const {
    return distance(computed(*stream(), p, seed), computed(*cpu, p, seed));
  }
  const std::unique_ptr<device> cpu = make_cpu_device();

 private:
  static std::shared_ptr<device> fresh() {
    reset(options{});
    return cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
  }
  std::shared_ptr<device> gpu_ = fresh();
};

TEST_F(gpu_maths, products_of_bf16_add_in_f32_and_round_once) {
  std::uint64_t seed = 0;
  for (const auto& [a, b] : {std::pair{dtype::bf16, dtype::bf16}, {dtype::bf16, dtype::f32}, {dtype::f32, dtype::bf16}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const double beta : {0.0, 1.0}) {
          const gemm_spec s{.transpose_a = transpose_a, .transpose_b = transpose_b, .m = 37, .n = 29, .k = 203, .beta = beta};
          ++seed;
          EXPECT_LE(from_the_cpu({s, a, b, dtype::f32}, seed), f32_sums) << seed;
          EXPECT_LE(from_the_cpu({s, a, b, dtype::bf16}, seed), one_rounding) << seed;
        }
  EXPECT_LE(from_the_cpu({{.m = 5, .n = 6, .k = 7, .alpha = -0.5}, dtype::f32, dtype::f32, dtype::bf16}, 99), one_rounding);
}

// A conversion is a kernel of Troupe, cuBLAS and cuDNN are not.
TEST_F(gpu_maths, products_and_convolutions_of_bf16_are_not_converted) {
  const conv_geometry g{.batch = 2, .channels = 3, .height = 8, .width = 8, .outputs = 4, .kernel_h = 3, .kernel_w = 3};
  const auto d = stream();
  std::mt19937_64 random(1);
  const auto half = [&](const shape& s) { return drawn(*d, s, dtype::bf16, random); };
  const auto a = half({6, 6}), b = half({6, 6}), x = half({2, 3, 8, 8}), w = half({4, 3, 3, 3}), dy = half({2, 4, 6, 6});
  auto narrow = half({6, 6}), y = half(dy.dims()), dx = half(x.dims());
  auto wide = drawn(*d, {6, 6}, dtype::f32, random);
  const auto before = counted().kernels;
  const gemm_spec s{.m = 6, .n = 6, .k = 6};
  d->gemm(s, a, b, narrow);
  d->gemm(s, a, b, wide);
  d->gemm_packed(s, a, d->pack(s, b), narrow);
  d->conv_forward(g, x, w, {}, y);
  d->conv_backward_data(g, dy, w, dx);
  EXPECT_EQ(counted().kernels, before);
}

TEST_F(gpu_maths, convolutions_of_bf16_agree_with_the_cpu_and_do_not_round_gradients_of_weights) {
  std::mt19937_64 random(3);
  for (std::uint64_t i = 0; i < 60; ++i) {
    auto g = test::random_geometry(random);
    if (i % 10 == 0) g.algorithm = conv_algorithm::lowering1;
    SCOPED_TRACE(test::text_of(g));
    const passes got(*stream(), g, dtype::bf16, dtype::f32, i), want(*cpu, g, dtype::bf16, dtype::f32, i);
    EXPECT_LE(distance(got.y, want.y), one_rounding);
    EXPECT_LE(distance(got.biased, want.biased), 2 * one_rounding);  // the sum is rounded before the bias is added
    EXPECT_LE(distance(got.dx, want.dx), one_rounding);
    EXPECT_LE(distance(got.dw, want.dw), f32_sums);
    EXPECT_LE(distance(got.added, want.added), f32_sums);
    if (HasFailure()) return;
  }
}

TEST_F(gpu_maths, tf32_rounds_the_f32_factors_of_one_stream) {
  const product_of p{{.m = 40, .n = 50, .k = 60}, dtype::f32, dtype::f32, dtype::f32};
  const auto exact = stream(), rounds = stream({.tf32 = true});
  const auto apart = [](const floats& got, const floats& want) {
    EXPECT_LE(distance(got, want), 1e-2);
    EXPECT_GT(distance(got, want), 1e-5);
  };
  apart(computed(*rounds, p, 1), computed(*exact, p, 1));
  const passes got(*rounds, in_tf32, dtype::f32, dtype::f32, 1), want(*exact, in_tf32, dtype::f32, dtype::f32, 1);
  apart(got.y, want.y);
  apart(got.dx, want.dx);
  apart(got.dw, want.dw);
  EXPECT_LE(distance(want.y, passes(*cpu, in_tf32, dtype::f32, dtype::f32, 1).y), f32_sums);
}

TEST_F(gpu_maths, tf32_changes_no_bit_of_f64_and_bf16) {
  const auto exact = stream(), rounds = stream({.tf32 = true});
  for (const auto& [activations, weights] : {std::pair{dtype::f64, dtype::f64}, {dtype::bf16, dtype::f32}}) {
    const product_of p{{.m = 40, .n = 50, .k = 60}, activations, weights, activations};
    EXPECT_EQ(computed(*rounds, p, 1), computed(*exact, p, 1));
    const passes got(*rounds, in_tf32, activations, weights, 1), want(*exact, in_tf32, activations, weights, 1);
    EXPECT_EQ(got.y, want.y);
    EXPECT_EQ(got.dx, want.dx);
    EXPECT_EQ(got.dw, want.dw);
  }
}

// A forward convolution whose plan for the virtual GPU has more than 8 MiB of workspace.
const conv_geometry hungry{.batch = 64,
                           .channels = 64,
                           .height = 28,
                           .width = 28,
                           .outputs = 8,
                           .kernel_h = 3,
                           .kernel_w = 3,
                           .stride_h = 3,
                           .stride_w = 3};

TEST(gpu_workspace, of_a_convolution_stays_within_the_limit_of_its_stream) {
  const shape xs{hungry.batch, hungry.channels, hungry.height, hungry.width}, ws{hungry.outputs, hungry.channels, 3, 3};
  std::size_t peak = 0;
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1} << 20, std::size_t{256} << 20}) {
    reset(options{});
    const auto d = cuda::make_stream_of(std::make_shared<cuda::gpu>(0));
    d->set_rules({.tf32 = true, .conv_workspace = limit});
    auto x = tensor::allocate(*d, xs, dtype::f32), w = tensor::allocate(*d, ws, dtype::f32),
         y = tensor::allocate(*d, {hungry.batch, hungry.outputs, hungry.out_h(), hungry.out_w()}, dtype::f32);
    const auto before = d->pool().bytes_in_use;
    d->conv_forward(hungry, x, w, {}, y);
    peak = d->pool().peak_bytes_in_use - before;
    if (limit < 8 << 20) {
      EXPECT_LE(peak, limit) << limit;
    }
    for (const auto& f : findings()) ADD_FAILURE() << f;
  }
  EXPECT_GT(peak, std::size_t{8} << 20);
}

TEST(gpu_plans, obey_the_types_and_rules_of_every_call_that_shares_them) {
  reset(options{});
  cuda::conv_plans plans(0);
  const cuda::conv_rules rounds{.tensor_cores = true};
  EXPECT_NE(plans.find(hungry, conv_pass::forward, dtype::f32, rounds),
            plans.find(hungry, conv_pass::forward, dtype::bf16, rounds));
  EXPECT_FALSE(plans.find(hungry, conv_pass::forward, {dtype::bf16, dtype::f32}, rounds));
  for (const auto type : {dtype::f32, dtype::bf16})
    for (const std::size_t limit : {std::size_t{256} << 20, std::size_t{0}, std::size_t{256} << 20}) {
      const auto* p = plans.find(hungry, conv_pass::forward, type, {.tensor_cores = true, .workspace = limit});
      ASSERT_TRUE(p);
      EXPECT_EQ(p->workspace > 0, limit > 0);
      EXPECT_EQ(p->tensor_cores, limit > 0);
      EXPECT_FALSE(plans.find(hungry, conv_pass::forward, dtype::f32, {.workspace = limit})->tensor_cores);
    }
}

TEST(gpu_plans, of_bf16_and_tf32_are_deterministic_and_within_the_workspace_on_three_gpus) {
  for (const auto* text : {properties_a100, properties_h100, properties_b200}) {
    const auto properties = cuda::properties_of_text(text);
    std::mt19937_64 random(4);
    for (int i = 0; i < 15; ++i) {
      const auto g = test::random_geometry(random);
      for (const auto pass : {conv_pass::forward, conv_pass::backward_data, conv_pass::backward_weights})
        for (const auto type : {dtype::f32, dtype::bf16})
          for (const std::size_t limit : {std::size_t{0}, std::size_t{256} << 20}) {
            const auto p = cuda::plan_conv(properties, g, pass, type, {.tensor_cores = true, .workspace = limit});
            EXPECT_TRUE(p || limit == 0) << test::text_of(g) << ", pass " << static_cast<int>(pass) << " of " << text;
            if (p) {
              EXPECT_LE(p->workspace, limit);
            }
          }
    }
  }
}

}  // namespace
}  // namespace troupe::vgpu
