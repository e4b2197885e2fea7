// Lookup of rows, its gradient, and resampling of ops/device.hpp as CUDA kernels.
//
// Pointers are device memory, T is float or double. Inputs and outputs do not overlap. A call
// appends one kernel to the stream, or nothing if the output is empty. Every sum has the order of
// the CPU device, without atomics.
// Bits: those of the CPU device, except for NaNs that are results of a sum.
// Errors: cuda_error if the launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/device.hpp"

namespace troupe::cuda::kernels {

// out[rows, length] = table[vocabulary, length] at ids[rows]. A negative id gives zeros, an id
// beyond the table gives NaN.
template <class T>
void gather_rows(cudaStream_t s, std::int64_t rows, std::int64_t vocabulary, std::int64_t length, const T* table,
                 const std::int32_t* ids, T* out);

// table[vocabulary, length]: row v is the sum of x[rows, length] over the rows r with ids[r] == v,
// in row order. Ids outside the table are ignored.
template <class T>
void scatter_rows(cudaStream_t s, std::int64_t rows, std::int64_t vocabulary, std::int64_t length, const T* x,
                  const std::int32_t* ids, T* table);

// y[outer, out, inner] from x[outer, in, inner], dx of x's shape from dy of y's shape. index,
// weight: [out, taps] in device memory; g.index and g.weight are not read.
template <class T>
void resample(cudaStream_t s, const resample_geometry& g, const std::int32_t* index, const double* weight, const T* x, T* y);
template <class T>
void resample_backward(cudaStream_t s, const resample_geometry& g, const std::int32_t* index, const double* weight, const T* dy,
                       T* dx);

}  // namespace troupe::cuda::kernels
