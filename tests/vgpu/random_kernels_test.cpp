// The kernels of ops/cuda/kernels/random.hpp give the bits of the CPU device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/cuda/check.hpp"
#include "ops/cuda/kernels/random.hpp"
#include "tests/vgpu/against_cpu.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;

constexpr rng_stream random_stream{0x123456789abcdef0u, 7, 0xfffffff0u};

// Numbers between -0.5 and 1.5.
template <class T>
std::vector<T> random_inputs(std::int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(i * 7919 % 1009) / T(504) - T(0.5);
  return v;
}

// The result of `run(device, x, y)` on the CPU, for x and y of [rows, row_length].
template <class T, class F>
std::vector<T> random_on_cpu(std::int64_t rows, std::int64_t row_length, const std::vector<T>& values, F run) {
  const auto d = make_cpu_device("baseline");
  auto x = tensor::allocate(*d, {rows, row_length}, dtype_of<T>), y = tensor::allocate(*d, {rows, row_length}, dtype_of<T>);
  std::vector<T> out(values.size());
  if (values.empty()) return out;
  d->upload(values.data(), x);
  run(*d, x, y);
  d->download(y, out.data());
  return out;
}

struct random_shape {
  std::int64_t rows, row_length;
  std::uint64_t first_example = 0;
};
constexpr random_shape random_shapes[] = {{0, 5},
                                          {5, 0},
                                          {1, 1},
                                          {1, 15},
                                          {3, 16},
                                          {3, 17},
                                          {2, 63, 5},
                                          {2, 64},
                                          {3, 65, 9},
                                          {5, 1000},
                                          {1000, 1},
                                          {7, 130, 0xfffffffdu},
                                          {2, 100, 1ull << 40}};

// Calls test(shape) with a new virtual GPU for each seed and shape. There must be no findings.
template <class F>
void for_random_shapes(F test) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const auto& s : random_shapes) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << s.rows << " x " << s.row_length);
      reset(options{.seed = seed});
      test(s);
      const auto list = findings();
      ASSERT_TRUE(list.empty()) << list[0];
    }
  }
}

template <class T>
class random_kernels : public testing::Test {};
using random_types = testing::Types<float, double>;
TYPED_TEST_SUITE(random_kernels, random_types);

TYPED_TEST(random_kernels, dropout_has_the_bits_of_the_cpu) {
  using T = TypeParam;
  for_random_shapes([](const random_shape& s) {
    auto x = random_inputs<T>(s.rows * s.row_length);
    if (x.size() > 40) {
      x[3] = std::numeric_limits<T>::infinity();
      for (std::size_t i = 20; i < 40; ++i) x[i] = T(-0.0);
    }
    for (const double ratio : {0.0, 0.3, 1 - 1e-12}) {
      const auto wanted = random_on_cpu(s.rows, s.row_length, x, [&](device& d, const tensor& from, tensor& to) {
        d.dropout(random_stream, s.first_example, ratio, from, to);
      });
      device_user u;
      T *in = u.filled(x), *out = u.memory<T>(x.size());
      kernels::dropout(u.stream, random_stream, s.first_example, ratio, s.rows, s.row_length, in, out);
      EXPECT_TRUE(identical(u.read(out, x.size()), wanted)) << ratio;
      kernels::dropout(u.stream, random_stream, s.first_example, ratio, s.rows, s.row_length, in, in);
      EXPECT_TRUE(identical(u.read(in, x.size()), wanted)) << ratio << ", in place";
    }
  });
}

TYPED_TEST(random_kernels, dropout_keeps_nan_only_where_the_mask_is_set) {
  using T = TypeParam;
  reset(options{});
  device_user u;
  const std::vector<T> x(500, std::numeric_limits<T>::quiet_NaN()), ones(500, T(1));
  T *a = u.filled(x), *b = u.filled(ones);
  kernels::dropout(u.stream, random_stream, 3, 0.5, 5, 100, a, a);
  kernels::dropout(u.stream, random_stream, 3, 0.5, 5, 100, b, b);
  const auto values = u.read(a, 500), mask = u.read(b, 500);
  for (std::size_t i = 0; i < 500; ++i) {
    const bool kept = mask[i] != T(0);
    EXPECT_TRUE(kept ? std::isnan(values[i]) : values[i] == T(0)) << i;
  }
}

TYPED_TEST(random_kernels, sample_has_the_bits_of_the_cpu_for_both_draws) {
  using T = TypeParam;
  for_random_shapes([](const random_shape& s) {
    auto x = random_inputs<T>(s.rows * s.row_length);
    if (x.size() > 40) x[20] = T(0), x[21] = T(1), x[22] = T(-0.0);
    for (const draw kind : {draw::bernoulli, draw::gaussian}) {
      const auto wanted = random_on_cpu(s.rows, s.row_length, x, [&](device& d, const tensor& from, tensor& to) {
        d.sample(kind, random_stream, s.first_example, from, to);
      });
      device_user u;
      T *in = u.filled(x), *out = u.memory<T>(x.size());
      kernels::sample(u.stream, kind, random_stream, s.first_example, s.rows, s.row_length, in, out);
      EXPECT_TRUE(identical(u.read(out, x.size()), wanted)) << static_cast<int>(kind);
      kernels::sample(u.stream, kind, random_stream, s.first_example, s.rows, s.row_length, in, in);
      EXPECT_TRUE(identical(u.read(in, x.size()), wanted)) << static_cast<int>(kind) << ", in place";
    }
  });
}

TYPED_TEST(random_kernels, bernoulli_gives_zero_for_a_probability_of_nan) {
  using T = TypeParam;
  reset(options{});
  device_user u;
  T* x = u.filled(std::vector<T>(70, std::numeric_limits<T>::quiet_NaN()));
  kernels::sample(u.stream, draw::bernoulli, random_stream, 0, 1, 70, x, x);
  EXPECT_EQ(u.read(x, 70), std::vector<T>(70, T(0)));
}

TYPED_TEST(random_kernels, fills_have_the_bits_of_the_cpu) {
  using T = TypeParam;
  for_random_shapes([](const random_shape& s) {
    const auto x = random_inputs<T>(s.rows * s.row_length);
    const auto n = static_cast<std::int64_t>(x.size());
    const auto uniform =
        random_on_cpu(1, n, x, [](device& d, const tensor&, tensor& to) { d.fill_uniform(random_stream, -0.7, 2, to); });
    const auto normal =
        random_on_cpu(1, n, x, [](device& d, const tensor&, tensor& to) { d.fill_gaussian(random_stream, 0.1, 3, to); });
    device_user u;
    T *a = u.memory<T>(x.size()), *b = u.memory<T>(x.size());
    kernels::fill_uniform(u.stream, random_stream, -0.7, 2, n, a);
    kernels::fill_gaussian(u.stream, random_stream, 0.1, 3, n, b);
    EXPECT_TRUE(identical(u.read(a, x.size()), uniform));
    EXPECT_TRUE(identical(u.read(b, x.size()), normal));
  });
}

// One pass of the largest grid covers 2048 blocks of 256 threads with 4 elements each.
TYPED_TEST(random_kernels, results_are_complete_when_threads_repeat) {
  using T = TypeParam;
  constexpr std::int64_t rows = 3, length = 2048 * 256 * 4 / rows + 777;
  reset(options{.seed = 2});
  const auto x = random_inputs<T>(rows * length);
  device_user u;
  T* p = u.filled(x);
  kernels::dropout(u.stream, random_stream, 1, 0.25, rows, length, p, p);
  EXPECT_TRUE(identical(u.read(p, x.size()), random_on_cpu(rows, length, x, [](device& d, const tensor& from, tensor& to) {
                          d.dropout(random_stream, 1, 0.25, from, to);
                        })));
  kernels::fill_gaussian(u.stream, random_stream, 0.0, 1.0, rows * length, p);
  EXPECT_TRUE(identical(u.read(p, x.size()), random_on_cpu(1, rows * length, x, [](device& d, const tensor&, tensor& to) {
                          d.fill_gaussian(random_stream, 0.0, 1.0, to);
                        })));
  const auto list = findings();
  ASSERT_TRUE(list.empty()) << list[0];
}

}  // namespace
}  // namespace troupe::vgpu
