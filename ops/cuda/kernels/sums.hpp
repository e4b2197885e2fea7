// Sums on the GPU: the kernels of device::reduce_sum, reduce_product, moments and sum_squares.
//
// T is float or double. All pointers are device memory; those of empty tensors may be null. x and
// y: [outer, mid, inner]; the results of a channel: [mid]. Every sum has an order that depends on
// the extents only (thread_group.hpp). sum_squares has the bits of the CPU device.
// Errors: cuda_error if a launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace troupe::cuda::kernels {

// out[mid] = sum over outer and inner of x. Sums in T, as the CPU.
template <class T>
void reduce_sum(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, T* out);

// out[mid] = sum over outer and inner of x y. Sums in T, as the CPU.
template <class T>
void reduce_product(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, const T* y, T* out);

// Mean and biased variance over outer and inner, in two passes over x. If inner > 1, sums in
// double; the second pass corrects the mean by the mean of the deviations (Chan, Golub and LeVeque
// 1979). Both results are NaN if outer inner is 0.
template <class T>
void moments(cudaStream_t stream, std::int64_t outer, std::int64_t mid, std::int64_t inner, const T* x, T* mean, T* variance);

// sum[0] = sum of the squares of x [n], by the binary tree of ops/tree/packet_tree.hpp over groups
// of 16 elements. scratch: sum_squares_scratch(n) elements, null if that is 0.
template <class T>
void sum_squares(cudaStream_t stream, std::int64_t n, const T* x, double* sum, double* scratch);
std::int64_t sum_squares_scratch(std::int64_t n);

}  // namespace troupe::cuda::kernels
