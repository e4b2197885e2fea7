// Softmax, losses and top-k accuracy on the GPU: the kernels of device::softmax, softmax_backward,
// pointwise_loss, softmax_loss, softmax_loss_backward and top_k. ops/device.hpp lists the formulas.
//
// T is float or double. All pointers are device memory; those of empty tensors may be null. labels:
// [rows]; a negative label marks a padding row. loss, dloss and out have one element. scratch has
// loss_scratch(rows, classes) elements, which the call overwrites. softmax_loss_backward without
// weights, top_k, the slopes of the squared and hinge losses, and softmax_backward with inner > 1
// have the bits of the CPU device. The others use exp and log of CUDA. Losses are summed over
// elements or rows in double.
// Errors: cuda_error if a launch is refused. The loss is NaN if softmax_loss finds a label beyond
// the classes; softmax_loss_backward gives NaN for that row, and top_k counts it as wrong.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/device.hpp"

namespace troupe::cuda::kernels {

// Softmax over the middle axis. x, y: [outer, classes, inner].
template <class T>
void softmax(cudaStream_t stream, std::int64_t outer, std::int64_t classes, std::int64_t inner, const T* x, T* y);

// dx = y (dy - sum over the classes of y dy). y, dy, dx: [outer, classes, inner].
template <class T>
void softmax_backward(cudaStream_t stream, std::int64_t outer, std::int64_t classes, std::int64_t inner, const T* y, const T* dy,
                      T* dx);

std::int64_t loss_scratch(std::int64_t rows, std::int64_t classes);

// x, targets, slope: [rows, classes].
template <class T>
void pointwise_loss(cudaStream_t stream, pointwise f, std::int64_t rows, std::int64_t classes, const T* x, const T* targets,
                    T* slope, T* loss, double* scratch);
template <class T>
void pointwise_loss(cudaStream_t stream, pointwise f, std::int64_t rows, std::int64_t classes, const T* x,
                    const std::int32_t* labels, T* slope, T* loss, double* scratch);

// x, probability: [rows, classes]. smoothing, weights (null: none): as in ops/device.hpp.
template <class T>
void softmax_loss(cudaStream_t stream, double smoothing, const T* weights, std::int64_t rows, std::int64_t classes, const T* x,
                  const std::int32_t* labels, T* probability, T* loss, double* scratch);

// probability, dx: [rows, classes].
template <class T>
void softmax_loss_backward(cudaStream_t stream, double smoothing, const T* weights, std::int64_t rows, std::int64_t classes,
                           const T* probability, const std::int32_t* labels, const T* dloss, T* dx, double* scratch);

// out: the fraction of valid rows whose label is among the k largest of x [rows, classes].
template <class T>
void top_k(cudaStream_t stream, std::int64_t k, std::int64_t rows, std::int64_t classes, const T* x, const std::int32_t* labels,
           T* out, double* scratch);

}  // namespace troupe::cuda::kernels
