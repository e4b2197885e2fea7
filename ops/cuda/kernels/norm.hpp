// Normalisation by channel on the GPU: the kernels of device::norm_*. ops/geometry.hpp lists the
// formulas of norm_geometry.
//
// T is float or double. All pointers are device memory; those of empty tensors may be null. x, y
// and their gradients: [outer, mid, inner]; mean, variance, weight and bias: [mid]; table: [4,
// mid]; sums: [2, mid]. A null weight counts as 1, a null bias as 0. norm_table, norm_apply and
// norm_slope have the bits of the baseline CPU device. Sums over a channel are in double, over
// columns (inner = 1) in T.
// Errors: cuda_error if a launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

// Mean and biased variance of x, the table and y.
template <class T>
void norm_forward(cudaStream_t stream, const norm_geometry& g, const T* x, const T* weight, const T* bias, T* variance, T* table,
                  T* y);

// The table for a given mean and variance; mean may be the first row of the table.
template <class T>
void norm_table(cudaStream_t stream, const norm_geometry& g, const T* mean, const T* variance, const T* weight, const T* bias,
                T* table);

// y = (x - mean) slope + shift, then a relu if g is rectified.
template <class T>
void norm_apply(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, T* y);

// sums: the sum of dy, and the sum of dy xhat. If g is rectified, dy counts only where y > 0.
template <class T>
void norm_sums(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums);

// dx = slope (dy - sums[0] / count - xhat sums[1] / count). If g is rectified, dy counts as 0 where
// y is not positive.
template <class T>
void norm_slope(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* sums, double count, const T* dy,
                T* dx);

// norm_sums, then norm_slope with count = outer inner.
template <class T>
void norm_backward(cudaStream_t stream, const norm_geometry& g, const T* x, const T* table, const T* dy, T* sums, T* dx);

}  // namespace troupe::cuda::kernels
