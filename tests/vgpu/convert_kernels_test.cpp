// The kernels of ops/cuda/kernels/convert.hpp give the bits of the CPU device.
#include "ops/cuda/kernels/convert.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ops/cuda/check.hpp"
#include "tests/vgpu/device_user.hpp"

namespace troupe::vgpu {
namespace {

using cuda::check;
namespace kernels = cuda::kernels;
using convert_bytes = std::vector<std::uint8_t>;

// Device memory with n bytes of the host's; null if n == 0.
void* bytes_on(device_user& u, const void* from, std::size_t n) {
  const auto* p = static_cast<const unsigned char*>(from);
  return u.filled(convert_bytes(p, p + n));
}
convert_bytes bytes_of(device_user& u, const void* p, std::size_t n) { return u.read(static_cast<const unsigned char*>(p), n); }

constexpr std::int64_t beyond_convert_grid = 2112 * 256 + 77;  // elements
constexpr dtype every_type[] = {dtype::f32, dtype::f64, dtype::bf16, dtype::i32, dtype::u8};

// Calls run() with a new virtual GPU for each of three seeds, and expects no findings.
template <class F>
void convert_over_seeds(F run) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    reset(options{.seed = seed});
    run();
    const auto list = findings();
    EXPECT_TRUE(list.empty()) << list[0];
  }
}

// Random bytes. As floating-point numbers they include NaNs, subnormal and large numbers.
convert_bytes random_convert_bytes(std::size_t n, std::uint32_t state) {
  convert_bytes v(n);
  for (auto& b : v) {
    state = state * 1664525 + 1013904223;
    b = static_cast<std::uint8_t>(state >> 24);
  }
  return v;
}

// n elements of type t: every second one is random bits, the others are numbers between -300 and
// 300 and special values.
template <class T>
convert_bytes mixed_as(std::int64_t n, const std::vector<T>& special) {
  auto v = random_convert_bytes(static_cast<std::size_t>(n) * sizeof(T), static_cast<std::uint32_t>(n));
  for (std::size_t i = 1; i < static_cast<std::size_t>(n); i += 2) {
    const T x = i % 6 == 1 ? special[i / 6 % special.size()] : static_cast<T>(static_cast<double>(i * 7919 % 6001) / 10 - 300);
    std::memcpy(v.data() + i * sizeof(T), &x, sizeof x);
  }
  return v;
}
convert_bytes mixed_values(dtype t, std::int64_t n) {
  using f32 = std::numeric_limits<float>;
  using f64 = std::numeric_limits<double>;
  constexpr auto most = std::numeric_limits<std::int32_t>::max(), least = std::numeric_limits<std::int32_t>::min();
  switch (t) {
    case dtype::f32:
      return mixed_as<float>(n, {0.0F, -0.0F, f32::infinity(), -f32::infinity(), f32::quiet_NaN(), -f32::quiet_NaN(), f32::max(),
                                 1e-40F, 1.00390625F, 1.01171875F, 0.5F, 255.5F, 2147483648.0F});
    case dtype::f64:
      return mixed_as<double>(
          n, {0.0, -0.0, f64::infinity(), -f64::infinity(), f64::quiet_NaN(), -f64::quiet_NaN(), f64::max(), 1e-40, 3.4e38, 3.5e38,
              1e-46, 1 + 0x1p-24, 1 + 0x1p-8 + 0x1p-40, 254.9, 2147483647.9, -2147483648.9});
    case dtype::i32: return mixed_as<std::int32_t>(n, {0, most, least, 16777217, 255, 256, -1, 257});
    default: return random_convert_bytes(static_cast<std::size_t>(n) * size_of(t), 7);
  }
}

convert_bytes copied_on_cpu(dtype from, dtype to, std::int64_t n, const convert_bytes& values) {
  const auto d = make_cpu_device("baseline");
  tensor a = tensor::allocate(*d, shape{n}, from), b = tensor::allocate(*d, shape{n}, to);
  convert_bytes out(b.bytes());
  if (n == 0) return out;
  d->upload(values.data(), a);
  d->copy(a, b);
  d->download(b, out.data());
  return out;
}

TEST(convert_kernels, copy_has_the_bits_of_the_cpu_when_types_and_sizes_vary) {
  convert_over_seeds([] {
    for (const auto from : every_type)
      for (const auto to : every_type)
        for (const std::int64_t n : {0, 1, 31, 257, 5000}) {
          if (from != to && (to == dtype::i32 || to == dtype::u8)) continue;  // the CPU device has no such conversion
          device_user u;
          const auto values = mixed_values(from, n);
          const auto expected = copied_on_cpu(from, to, n, values);
          void *a = u.filled(values), *b = bytes_on(u, expected.data(), expected.size());
          if (n > 0) check(cudaMemsetAsync(b, 0x5a, expected.size(), u.stream), "memset");
          kernels::copy(u.stream, from, to, n, a, b);
          EXPECT_EQ(bytes_of(u, b, expected.size()), expected) << name_of(from) << " to " << name_of(to) << ", " << n;
        }
  });
}

TEST(convert_kernels, copy_has_the_bits_of_the_cpu_when_one_pass_of_the_grid_is_too_small) {
  convert_over_seeds([] {
    device_user u;
    const auto values = mixed_values(dtype::f32, beyond_convert_grid);
    const auto expected = copied_on_cpu(dtype::f32, dtype::bf16, beyond_convert_grid, values);
    void *a = u.filled(values), *b = u.filled(convert_bytes(expected.size()));
    kernels::copy(u.stream, dtype::f32, dtype::bf16, beyond_convert_grid, a, b);
    EXPECT_EQ(bytes_of(u, b, expected.size()), expected);
  });
}

// Converts one number; returns it as a T.
template <class T, class From>
T one_copied(From x) {
  device_user u;
  const T none{};
  void *a = bytes_on(u, &x, sizeof x), *b = bytes_on(u, &none, sizeof none);
  kernels::copy(u.stream, dtype_of<From>, dtype_of<T>, 1, a, b);
  const auto bytes = bytes_of(u, b, sizeof(T));
  T y;
  std::memcpy(&y, bytes.data(), sizeof y);
  return y;
}

TEST(convert_kernels, copy_truncates_and_saturates_when_it_converts_to_integers) {
  constexpr auto most = std::numeric_limits<std::int32_t>::max(), least = std::numeric_limits<std::int32_t>::min();
  convert_over_seeds([&] {
    EXPECT_EQ(one_copied<std::int32_t>(-3.9F), -3);
    EXPECT_EQ(one_copied<std::int32_t>(3.9), 3);
    EXPECT_EQ(one_copied<std::int32_t>(2147483648.0F), most);
    EXPECT_EQ(one_copied<std::int32_t>(2147483646.9), most - 1);
    EXPECT_EQ(one_copied<std::int32_t>(-1e300), least);
    EXPECT_EQ(one_copied<std::int32_t>(std::nan("")), 0);
    EXPECT_EQ(one_copied<std::int32_t>(std::uint8_t{200}), 200);
    EXPECT_EQ(one_copied<std::uint8_t>(254.9F), 254);
    EXPECT_EQ(one_copied<std::uint8_t>(-0.9), 0);
    EXPECT_EQ(one_copied<std::uint8_t>(256.0), 255);
    EXPECT_EQ(one_copied<std::uint8_t>(-5), 0);
    EXPECT_EQ(one_copied<std::uint8_t>(300), 255);
    EXPECT_EQ(one_copied<std::uint8_t>(std::numeric_limits<float>::infinity()), 255);
  });
}

TEST(convert_kernels, copy_block_has_the_bits_of_the_cpu_when_offsets_and_sizes_vary) {
  const auto d = make_cpu_device("baseline");
  // The even ones are copied as wider elements.
  const std::vector<device::block> blocks = {{0, 5, 0, 5, 0, 5},       {3, 0, 1, 5, 2, 5},       {1, 1, 0, 1, 0, 1},
                                             {7, 33, 3, 50, 11, 41},   {5, 64, 8, 96, 16, 128},  {300, 1, 0, 2, 1, 3},
                                             {2, 6, 4, 10, 2, 12},     {3, 300, 0, 300, 1, 301}, {4, 8, 4, 20, 12, 8},
                                             {1, 700, 700, 0, 800, 0}, {2, 4, 0, 0, 0, 4}};
  convert_over_seeds([&] {
    for (const auto type : every_type)
      for (const auto& b : blocks) {
        device_user u;
        const auto size = size_of(type);
        const auto from = random_convert_bytes(2000 * size, 1), to = random_convert_bytes(2000 * size, 2);
        tensor x = tensor::allocate(*d, shape{2000}, type), y = tensor::allocate(*d, shape{2000}, type);
        d->upload(from.data(), x);
        d->upload(to.data(), y);
        void *dx = u.filled(from), *dy = u.filled(to);
        d->copy_block(b, x, y);
        kernels::copy_block(u.stream, size, b, dx, dy);
        convert_bytes expected(to.size());
        d->download(y, expected.data());
        EXPECT_EQ(bytes_of(u, dy, to.size()), expected) << name_of(type) << ", rows of " << b.length;
      }
  });
}

TEST(convert_kernels, copy_block_copies_every_run_when_one_pass_of_the_grid_is_too_small) {
  convert_over_seeds([] {
    device_user u;
    const std::size_t rows = 3, length = 180301;
    const auto from = random_convert_bytes(rows * length, 1);
    convert_bytes expected(rows * (length + 2));
    void *a = u.filled(from), *b = u.filled(expected);
    kernels::copy_block(u.stream, 1, {3, 180301, 0, 180301, 1, 180303}, a, b);
    for (std::size_t r = 0; r < rows; ++r) std::memcpy(&expected[r * (length + 2) + 1], &from[r * length], length);
    EXPECT_EQ(bytes_of(u, b, expected.size()), expected);
  });
}

template <class T>
class convert_kernels : public testing::Test {};
using convert_types = testing::Types<float, double>;
TYPED_TEST_SUITE(convert_kernels, convert_types);

// Rows with numbers of very different sizes. Of every 7 rows one is zero, one has an infinity, one
// a NaN, and one a number that is finite in f64 only.
template <class T>
std::vector<T> rows_to_quantise(std::int64_t rows, std::int64_t each) {
  std::vector<T> v(static_cast<std::size_t>(rows * each));
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto r = static_cast<std::int64_t>(i) / each, c = static_cast<std::int64_t>(i) % each;
    v[i] = static_cast<T>((static_cast<double>(i * 7919 % 10007) / 5000 - 1) * std::pow(10.0, static_cast<double>(r % 60 - 40)));
    if (r % 7 == 1) v[i] = T(c % 2 == 0 ? 0.0 : -0.0);
    if (r % 7 == 2 && c == each / 2) v[i] = -std::numeric_limits<T>::infinity();
    if (r % 7 == 3 && c == each - 1) v[i] = std::numeric_limits<T>::quiet_NaN();
    if (r % 7 == 4 && c == 0) v[i] = std::numeric_limits<T>::max();
    if (r % 7 == 5) v[i] = static_cast<T>(c % 255) - T(127) + T(0.5);  // ties, if 127 is in the row
    if (r % 7 == 5 && c == 1) v[i] = T(127);
  }
  return v;
}

TYPED_TEST(convert_kernels, rows_of_int8_have_the_bits_of_the_cpu_when_shapes_vary) {
  using T = TypeParam;
  const auto d = make_cpu_device("baseline");
  const std::int64_t shapes[][2] = {{0, 5}, {3, 0}, {1, 1}, {9, 1}, {70, 33}, {8, 256}, {7, 1001}, {3000, 2}, {1, 541001}};
  convert_over_seeds([&] {
    for (const auto& e : shapes) {
      device_user u;
      const auto rows = e[0], each = e[1];
      const auto x = rows_to_quantise<T>(rows, each);
      tensor tx = tensor::allocate(*d, shape{rows, each}, dtype_of<T>), back = tensor::allocate(*d, shape{rows, each}, dtype_of<T>);
      tensor packed = tensor::allocate(*d, shape{rows, each + 4}, dtype::u8);
      if (!x.empty()) d->upload(x.data(), tx);
      d->to_int8(tx, packed);
      convert_bytes expected(packed.bytes());
      if (!expected.empty()) d->download(packed, expected.data());
      const auto* dx = u.filled(x);
      auto* bytes = static_cast<std::uint8_t*>(u.filled(convert_bytes(expected.size(), 0x5a)));
      kernels::to_int8(u.stream, rows, each, dx, bytes);
      EXPECT_EQ(bytes_of(u, bytes, expected.size()), expected) << rows << " x " << each;

      d->from_int8(packed, back);
      convert_bytes wide(back.bytes());
      if (!wide.empty()) d->download(back, wide.data());
      auto* y = static_cast<T*>(bytes_on(u, wide.data(), wide.size()));
      if (y) check(cudaMemsetAsync(y, 0x5a, wide.size(), u.stream), "memset");
      kernels::from_int8(u.stream, rows, each, bytes, y);
      EXPECT_EQ(bytes_of(u, y, wide.size()), wide) << rows << " x " << each;
    }
  });
}

}  // namespace
}  // namespace troupe::vgpu
