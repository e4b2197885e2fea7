// Copies and conversions. Neighbouring threads access neighbouring elements; to_int8 has one block
// per row.
#include "ops/cuda/kernels/convert.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/cuda/kernel_language.hpp"

namespace troupe::cuda::kernels {
namespace {

using i64 = std::int64_t;
using u16 = std::uint16_t;  // bits of a bf16
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr int convert_block = 256;
constexpr i64 convert_blocks = 2112;  // two waves of full multiprocessors on an H100
constexpr float convert_largest = std::numeric_limits<float>::max(), convert_infinity = std::numeric_limits<float>::infinity();
template <class T>
constexpr T convert_lowest = std::numeric_limits<T>::min();
template <class T>
constexpr T convert_highest = std::numeric_limits<T>::max();

// Elements of a grid-stride loop.
__device__ i64 convert_first() { return static_cast<i64>(blockIdx.x) * convert_block + threadIdx.x; }
__device__ i64 convert_step() { return static_cast<i64>(gridDim.x) * convert_block; }

// Appends a launch of an element-wise kernel for n elements.
template <class... P, class... A>
void launch_convert(void (*kernel)(P...), i64 n, cudaStream_t s, A... args) {
  const auto grid = static_cast<unsigned>(std::min((n + convert_block - 1) / convert_block, convert_blocks));
  if (n > 0) launch(kernel, grid, convert_block, 0, s, args...);
}

// Conversions of single values. NaNs are converted as bits, because a GPU's own conversion drops
// their sign and payload.

template <class To, class From>
__device__ To same_bytes(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}

__device__ float float_of(float x) { return x; }
__device__ float float_of(u16 x) { return same_bytes<float>(static_cast<u32>(x) << 16); }
__device__ float float_of(std::int32_t x) { return static_cast<float>(x); }
__device__ float float_of(std::uint8_t x) { return static_cast<float>(x); }
__device__ float float_of(double x) {
  if (x == x) return static_cast<float>(x);
  const auto bits = same_bytes<u64>(x);
  return same_bytes<float>(static_cast<u32>(bits >> 63 << 31 | 0x7fc00000u | (bits >> 29 & 0x3fffffu)));
}

__device__ double double_of(double x) { return x; }
__device__ double double_of(std::int32_t x) { return static_cast<double>(x); }
__device__ double double_of(std::uint8_t x) { return static_cast<double>(x); }
__device__ double double_of(float x) {
  if (x == x) return static_cast<double>(x);
  const u64 bits = same_bytes<u32>(x);
  return same_bytes<double>(bits >> 31 << 63 | u64{0x7ff8000000000000} | (bits & 0x3fffffu) << 29);
}
__device__ double double_of(u16 x) { return double_of(float_of(x)); }

// Rounds to nearest, ties to even.
__device__ u16 bf16_of(float x) {
  const auto bits = same_bytes<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>(bits >> 16 | 0x40u);
  return static_cast<u16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class To>
__device__ To truncated(double x) {
  constexpr To low = convert_lowest<To>, high = convert_highest<To>;
  if (x != x) return To(0);
  return x <= low ? low : x >= high ? high : static_cast<To>(x);
}

template <class To, class From>
__device__ To converted(From x) {
  if constexpr (std::is_same_v<To, float>) return float_of(x);
  if constexpr (std::is_same_v<To, double>) return double_of(x);
  if constexpr (std::is_same_v<To, u16>) return bf16_of(float_of(x));
  if constexpr (std::is_same_v<To, std::int32_t> || std::is_same_v<To, std::uint8_t>) return truncated<To>(double_of(x));
}

template <class From, class To>
__global__ void __launch_bounds__(convert_block) convert_kernel(i64 n, const From* from, To* to) {
  for (i64 i = convert_first(); i < n; i += convert_step()) to[i] = converted<To>(from[i]);
}

// Calls run(zero of the type that represents t).
template <class Run>
void with_type(dtype t, Run run) {
  switch (t) {
    case dtype::f32: return run(float{});
    case dtype::f64: return run(double{});
    case dtype::bf16: return run(u16{});
    case dtype::i32: return run(std::int32_t{});
    case dtype::u8: return run(std::uint8_t{});
  }
}

template <class T>
__global__ void __launch_bounds__(convert_block)
    copy_block_kernel(i64 n, i64 length, i64 from_stride, i64 to_stride, const T* from, T* to) {
  for (i64 i = convert_first(); i < n; i += convert_step()) {
    const i64 r = i / length, c = i - r * length;
    to[r * to_stride + c] = from[r * from_stride + c];
  }
}

template <class T>
__global__ void __launch_bounds__(convert_block) to_int8_kernel(i64 rows, i64 each, const T* x, std::uint8_t* bytes) {
  constexpr int warps = convert_block / 32;
  TROUPE_SHARED(float, warps, parts);
  const int t = static_cast<int>(threadIdx.x);
  for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* row = x + r * each;
    float most = 0;  // the maximum of |x|; infinite if an element is not finite
    for (i64 i = t; i < each; i += convert_block) {
      const float v = static_cast<float>(row[i]), a = v < 0 ? -v : v;
      if (!(a <= most)) most = a <= convert_largest ? a : convert_infinity;
    }
    for (int d = 16; d > 0; d /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, most, d);
      if (other > most) most = other;
    }
    if (t % 32 == 0) parts[t / 32] = most;
    __syncthreads();
    for (int w = 0; w < warps; ++w) {
      const float other = parts[w];
      if (other > most) most = other;
    }
    const bool finite = most <= convert_largest;
    std::uint8_t* to = bytes + r * (each + 4);
    for (i64 i = t; i < each; i += convert_block) {
      float v = 0;
      if (finite && most > 0) v = std::rint(127.0f * (static_cast<float>(row[i]) / most));
      to[i] = static_cast<std::uint8_t>(static_cast<int>(v));
    }
    const u32 scale = finite ? same_bytes<u32>(most / 127.0f) : 0x7fc00000u;
    if (t < 4) to[each + t] = static_cast<std::uint8_t>(scale >> 8 * t);
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(convert_block) from_int8_kernel(i64 n, i64 each, const std::uint8_t* bytes, T* x) {
  for (i64 i = convert_first(); i < n; i += convert_step()) {
    const i64 r = i / each;
    const std::uint8_t *from = bytes + r * (each + 4), *scale = from + each;
    u32 bits = 0;
    for (int k = 0; k < 4; ++k) bits |= static_cast<u32>(scale[k]) << 8 * k;
    x[i] = static_cast<T>(static_cast<float>(static_cast<std::int8_t>(from[i - r * each])) * same_bytes<float>(bits));
  }
}

template <class T>
void copy_block_as(cudaStream_t s, const device::block& b, const void* from, void* to) {
  launch_convert(copy_block_kernel<T>, b.rows * b.length, s, b.rows * b.length, b.length, b.from_stride, b.to_stride,
                 static_cast<const T*>(from) + b.from_offset, static_cast<T*>(to) + b.to_offset);
}

}  // namespace

void copy(cudaStream_t s, dtype from_type, dtype to_type, i64 n, const void* from, void* to) {
  if (n == 0) return;
  if (from_type == to_type) {
    const auto bytes = static_cast<std::size_t>(n) * size_of(to_type);
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s), "copy within the device");
  }
  with_type(from_type, [&](auto f) {
    with_type(to_type, [&](auto t) {
      using From = decltype(f);
      using To = decltype(t);
      if constexpr (!std::is_same_v<From, To>)
        launch_convert(convert_kernel<From, To>, n, s, n, static_cast<const From*>(from), static_cast<To*>(to));
    });
  });
}

void copy_block(cudaStream_t s, std::size_t element_bytes, const device::block& b, const void* from, void* to) {
  auto wide = b;
  auto size = element_bytes;
  const auto aligned = [](const void* p, std::size_t bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; };
  // Copies pairs of elements as one as long as everything is even.
  while (size < 8 && aligned(from, 2 * size) && aligned(to, 2 * size) &&
         (wide.length | wide.from_offset | wide.from_stride | wide.to_offset | wide.to_stride) % 2 == 0) {
    wide = {wide.rows, wide.length / 2, wide.from_offset / 2, wide.from_stride / 2, wide.to_offset / 2, wide.to_stride / 2};
    size *= 2;
  }
  switch (size) {
    case 1: return copy_block_as<std::uint8_t>(s, wide, from, to);
    case 2: return copy_block_as<u16>(s, wide, from, to);
    case 4: return copy_block_as<u32>(s, wide, from, to);
    default: return copy_block_as<u64>(s, wide, from, to);
  }
}

template <class T>
void to_int8(cudaStream_t s, i64 rows, i64 each, const T* x, std::uint8_t* bytes) {
  if (rows > 0)
    launch(to_int8_kernel<T>, static_cast<unsigned>(std::min(rows, convert_blocks)), convert_block, 0, s, rows, each, x, bytes);
}

template <class T>
void from_int8(cudaStream_t s, i64 rows, i64 each, const std::uint8_t* bytes, T* x) {
  launch_convert(from_int8_kernel<T>, rows * each, s, rows * each, each, bytes, x);
}

template void to_int8(cudaStream_t, i64, i64, const float*, std::uint8_t*);
template void to_int8(cudaStream_t, i64, i64, const double*, std::uint8_t*);
template void from_int8(cudaStream_t, i64, i64, const std::uint8_t*, float*);
template void from_int8(cudaStream_t, i64, i64, const std::uint8_t*, double*);

}  // namespace troupe::cuda::kernels
