// Copies and conversions of ops/device.hpp as CUDA kernels: copy, copy_block, to_int8, from_int8.
//
// Pointers are device memory, T is float or double. Inputs and outputs do not overlap. A call
// appends one operation to the stream, or nothing if the output is empty.
// Bits: those of the CPU device, except for the NaNs of from_int8.
// Errors: cuda_error if the launch or the copy is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/device.hpp"

namespace troupe::cuda::kernels {

// to[n] = from[n], converted.
//   f32, f64   rounds to nearest, ties to even; a NaN keeps its sign and upper bits and becomes
//              quiet
//   bf16       by way of f32, as ops/bf16.hpp; from bf16 as well
//   i32, u8    truncates toward zero; beyond the range gives the nearest bound, NaN gives 0. The
//              CPU device refuses conversions to these two.
void copy(cudaStream_t s, dtype from_type, dtype to_type, std::int64_t n, const void* from, void* to);

// Copies b.rows runs of b.length elements of `element_bytes` bytes (1, 2, 4 or 8), bit by bit.
void copy_block(cudaStream_t s, std::size_t element_bytes, const device::block& b, const void* from, void* to);

// bytes[rows, each + 4]: round(127 x / max |x|) of each row of x[rows, each], then its f32 scale.
// NaN as scale and zeros if an element is not finite in f32.
template <class T>
void to_int8(cudaStream_t s, std::int64_t rows, std::int64_t each, const T* x, std::uint8_t* bytes);
// x[rows, each] from bytes[rows, each + 4].
template <class T>
void from_int8(cudaStream_t s, std::int64_t rows, std::int64_t each, const std::uint8_t* bytes, T* x);

}  // namespace troupe::cuda::kernels
