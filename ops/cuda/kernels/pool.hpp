// Kernels of max and average pooling (device.hpp, "pooling"). With the geometry g, x and dx are
// [planes, height, width], y, dy and index are [planes, out_h, out_w]. Each window must cover at
// least one pixel, and a plane has fewer than 2^31 pixels.
//   max   index: position of the maximum in its plane. The first maximum in row order wins a tie; a
//         NaN wins over every number.
//   avg   the sum of a window over its number of elements, which pool_geometry::count_padding
//         defines
// Results have the bits of the CPU device, also the index if a window has several NaN. Sums follow
// the order of the CPU. In the backward passes, a thread owns an element of dx and adds the windows
// that cover it.
// Errors: cuda_error if a launch is refused. Empty tensors are null pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

template <class T>
void max_pool(cudaStream_t s, const pool_geometry& g, const T* x, T* y, std::int32_t* index);
// dx = sum of dy over the windows whose maximum the element is. `index` is that of max_pool.
template <class T>
void max_pool_backward(cudaStream_t s, const pool_geometry& g, const T* dy, const std::int32_t* index, T* dx);
template <class T>
void avg_pool(cudaStream_t s, const pool_geometry& g, const T* x, T* y);
template <class T>
void avg_pool_backward(cudaStream_t s, const pool_geometry& g, const T* dy, T* dx);

}  // namespace troupe::cuda::kernels
