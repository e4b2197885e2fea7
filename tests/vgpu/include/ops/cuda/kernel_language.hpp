// Replaces ops/cuda/kernel_language.hpp when g++ compiles kernels for the virtual GPU: the same
// language, with a block's threads as fibers (tests/vgpu/block_run.hpp) and launches as operations
// of virtual streams.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ops/cuda/check.hpp"
#include "tests/vgpu/block_run.hpp"
#include "tests/vgpu/device_state.hpp"

#define threadIdx (::troupe::vgpu::block_run::here().thread)
#define blockIdx (::troupe::vgpu::block_run::here().block)
#define blockDim (::troupe::vgpu::block_run::here().block_dim)
#define gridDim (::troupe::vgpu::block_run::here().grid_dim)
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static_assert(false, "use TROUPE_SHARED");

namespace troupe::cuda {

using vgpu::block_run;

// An element of a shared array; records reads and writes. Only temporaries convert to T, so that
// `auto v = part[i]` is an error as soon as v is used.
template <class T>
class shared_element {
 public:
  shared_element(T* at, vgpu::race_cell* cell, std::size_t index) : at_(at), cell_(cell), index_(index) {}
  operator T() const&& { return read(); }
  T operator=(T v) const&& { return write(v); }
  T operator=(shared_element&& o) const&& { return write(o.read()); }
  T operator+=(T v) const&& { return write(read() + v); }

 private:
  T read() const { return block_run::mine().touch(*cell_, false, index_), *at_; }
  T write(T v) const { return block_run::mine().touch(*cell_, true, index_), *at_ = v; }
  T* at_;
  vgpu::race_cell* cell_;
  std::size_t index_;
};

// A shared array. cells_each: cells per element.
template <class T>
class shared_view {
 public:
  shared_view(block_run::shared_memory m, std::int64_t count, std::size_t cells_each)
      : memory_(m), count_(count), cells_each_(cells_each) {}
  shared_element<T> operator[](std::int64_t i) const {
    if (i < 0 || i >= count_) block_run::mine().beyond(i, count_), i = 0;
    const auto k = static_cast<std::size_t>(i);
    return {reinterpret_cast<T*>(memory_.data) + k, memory_.cells + k * cells_each_, k};
  }

 private:
  block_run::shared_memory memory_;
  std::int64_t count_;
  std::size_t cells_each_;
};
#define TROUPE_SHARED(T, N, name)   \
  static const char name##_tag = 0; \
  const ::troupe::cuda::shared_view<T> name(::troupe::vgpu::block_run::mine().shared(&name##_tag, sizeof(T) * (N), N), N, 1)

template <class T>
shared_view<T> dynamic_shared() {
  static_assert(sizeof(T) >= 4);
  std::size_t bytes = 0;
  const auto m = block_run::mine().dynamic(bytes);
  return {m, static_cast<std::int64_t>(bytes / sizeof(T)), sizeof(T) / 4};
}

template <class T, class = void>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;
template <class T>
inline constexpr bool is_plain<T, typename T::plain> = std::is_trivially_copyable_v<T>;

// Returns a kernel argument as the kernel sees it, and records a pointer's access.
template <class P>
P translated(P p, std::vector<vgpu::access>& uses) {
  if constexpr (std::is_pointer_v<P>) {
    if (!p) return p;
    uses.push_back({p, !std::is_const_v<std::remove_pointer_t<P>>});
    return static_cast<P>(vgpu::device_memory(p));
  } else {
    return p;
  }
}

template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream, A... args) {
  static_assert((is_plain<P> && ...), "a kernel argument must not hide pointers");
  std::vector<vgpu::access> uses;
  auto body = [kernel, list = std::tuple<P...>{translated<P>(static_cast<P>(args), uses)...}] { std::apply(kernel, list); };
  vgpu::launch_kernel(stream, __PRETTY_FUNCTION__, std::move(uses), grid, block, shared, std::move(body));
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace troupe::cuda

inline void __syncthreads() { troupe::vgpu::block_run::mine().barrier(); }
inline void __syncwarp(std::uint32_t mask = 0xffffffffu) { troupe::vgpu::block_run::mine().warp_barrier(mask); }
inline std::uint32_t __ballot_sync(std::uint32_t mask, int vote) { return troupe::vgpu::block_run::mine().ballot(mask, vote != 0); }
template <class T>
T troupe_shuffle(std::uint32_t mask, T v, int from) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  bits = troupe::vgpu::block_run::mine().exchange(mask, bits, from);
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
template <class T>
T __shfl_sync(std::uint32_t mask, T v, int lane) {
  return troupe_shuffle(mask, v, lane & 31);
}
template <class T>
T __shfl_down_sync(std::uint32_t mask, T v, unsigned by) {
  const auto lane = troupe::vgpu::block_run::here().lane() + static_cast<int>(by);
  return troupe_shuffle(mask, v, lane < 32 ? lane : -1);
}
template <class T>
T __shfl_xor_sync(std::uint32_t mask, T v, int bits) {
  return troupe_shuffle(mask, v, troupe::vgpu::block_run::here().lane() ^ bits);
}
// Blocks run one at a time on one host thread.
template <class T>
T atomicAdd(T* p, T v) {
  static_assert(std::is_integral_v<T>, "sums of floating-point numbers must have a fixed order");
  return std::exchange(*p, *p + v);
}
