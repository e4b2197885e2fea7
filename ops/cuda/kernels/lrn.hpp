// Kernels of local response normalisation (device.hpp, lrn). All tensors are [batch, channels,
// height, width]. With share = alpha / |window|:
//   scale = k + share * sum of x^2 over the window; y = x scale^-beta
//   dx = dy scale^-beta - 2 share beta x * sum over the window of (dy x scale^(-beta - 1))
// The window is `size` channels at one pixel, or size x size pixels of one channel, clipped to the
// tensor. Krizhevsky et al. 2012, section 3.3, with Caffe's alpha / |window|.
// `scale` has the bits of the CPU device across channels, and within a channel up to size 9. The
// other results differ from the CPU by the rounding of the power. Sums have a fixed order.
// Errors: cuda_error if a launch is refused. Empty tensors are null pointers.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

template <class T>
void lrn(cudaStream_t s, const lrn_geometry& g, const T* x, T* y, T* scale);
// `scale` is that of lrn.
template <class T>
void lrn_backward(cudaStream_t s, const lrn_geometry& g, const T* x, const T* scale, const T* dy, T* dx);

}  // namespace troupe::cuda::kernels
