// The part of CUDA that kernels of Troupe are written in. nvcc compiles them for GPUs; tests
// compile the same files with g++, where tests/vgpu/include comes first in the include path and
// replaces this header, and run them on a virtual GPU.
//
// Allowed in kernels: threadIdx, blockIdx, blockDim, gridDim, TROUPE_SHARED, dynamic_shared(),
// __syncthreads, __syncwarp, __shfl_sync, __shfl_down_sync, __shfl_xor_sync, __ballot_sync, integer
// atomicAdd, functors as arguments, and <cuda_bf16.h>.
// Not allowed, because the virtual GPU has no such thing: <<<>>> (use launch), __shared__ by hand,
// cooperative groups, wmma, mma, cp.async, textures, printf, device variables, and pointers inside
// of structures that are kernel arguments. Blocks must not wait for each other.
// An element of a shared array is read into a typed variable (`const float v = part[i]`, not
// `auto`), because on the virtual GPU it is a proxy that records the access.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "ops/cuda/check.hpp"

namespace troupe::cuda {

template <class T, int N>
struct shared_array {
  T at[N];
  __device__ T& operator[](int i) { return at[i]; }
};
// Declares `name`, an array of N elements of T that the threads of a block share. Uninitialised.
#define TROUPE_SHARED(T, N, name) __shared__ ::troupe::cuda::shared_array<T, N> name

// The memory that launch() gave to each block, as an array of T. T has 4 bytes or more.
template <class T>
__device__ T* dynamic_shared() {
  static_assert(sizeof(T) >= 4);
  extern __shared__ __align__(16) unsigned char troupe_dynamic_shared[];
  return reinterpret_cast<T*>(troupe_dynamic_shared);
}

// A kernel argument is a number, a pointer to device memory, or a structure of numbers that says so
// by `using plain = void`. Const pointers are read, others may also be written.
template <class T, class = void>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;
template <class T>
inline constexpr bool is_plain<T, typename T::plain> = std::is_trivially_copyable_v<T>;

// Appends a launch of `kernel` to the stream. `shared`: bytes of dynamic_shared() per block. Throws
// cuda_error if the launch is refused.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream, A... args) {
  static_assert((is_plain<P> && ...), "a kernel argument must not hide pointers");
  kernel<<<grid, block, shared, stream>>>(static_cast<P>(args)...);
  check(cudaGetLastError(), "launch of a kernel");
}

}  // namespace troupe::cuda
