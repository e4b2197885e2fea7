// Element-wise sums and maps of ops/device.hpp as CUDA kernels: fill, axpy, scale, apply, add_bias,
// blend, map, map_backward, select_equal.
//
// Pointers are device memory, n counts elements, T is float or double. An output may be the same
// memory as an input where ops/device.hpp allows it. Calls append one kernel to the stream, or
// nothing if there are no elements. Numbers of type double are rounded to T first.
// Bits: those of the CPU device, with two exceptions: the sign and payload of NaNs; and map of
// sigmoid, tanh, exp, log, elu, silu, gelu and gelu_tanh and map_backward of silu, gelu and
// gelu_tanh, which use CUDA's exp, log, tanh and erfc.
// Errors: cuda_error if the launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/device.hpp"

namespace troupe::cuda::kernels {

// x[n] = value. T: also std::int32_t (truncated) and bf16 (rounded to float, then to bf16).
template <class T>
void fill(cudaStream_t s, double value, std::int64_t n, T* x);

// y[n] += a x[n]
template <class T>
void axpy(cudaStream_t s, double a, std::int64_t n, const T* x, T* y);

// x[n] *= a
template <class T>
void scale(cudaStream_t s, double a, std::int64_t n, T* x);

// out[n] = x[n] op y[n]. maximum and rectified_sum give NaN if an operand is NaN; maximum of equal
// numbers is y.
template <class T>
void apply(cudaStream_t s, binary op, std::int64_t n, const T* x, const T* y, T* out);

// y[outer, channels, inner] += bias[channels]
template <class T>
void add_bias(cudaStream_t s, std::int64_t outer, std::int64_t channels, std::int64_t inner, const T* bias, T* y);

// out[outer, mid, inner] = x a[mid] + y b[mid] + shift[mid]. Null: a, b count as 1, y, shift as 0.
template <class T>
void blend(cudaStream_t s, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, const T* a, const T* y, const T* b,
           const T* shift, T* out);

// y[n] = f(x[n])
template <class T>
void map(cudaStream_t s, unary f, double parameter, std::int64_t n, const T* x, T* y);

// dx[n] = dy[n] f'(x[n]), y[n] = f(x[n]). Reads x if device::needs_input(f), otherwise y; the other
// may be null.
template <class T>
void map_backward(cudaStream_t s, unary f, double parameter, std::int64_t n, const T* x, const T* y, const T* dy, T* dx);

// dx[n] = x[n] == y[n] ? dy[n] : 0
template <class T>
void select_equal(cudaStream_t s, std::int64_t n, const T* x, const T* y, const T* dy, T* dx);

}  // namespace troupe::cuda::kernels
