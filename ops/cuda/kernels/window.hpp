// Kernels that copy the patches of a convolution (device.hpp, im2col and col2im), for one image and
// one group of the geometry g. x and dx are [batch, channels, height, width]; col is
// [group channels, kernel_h, kernel_w, out_h, out_w], zero where a tap is outside the image.
// Results have the bits of the CPU device.
// Errors: cuda_error if a launch is refused. Empty tensors are null pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

template <class T>
void im2col(cudaStream_t s, const conv_geometry& g, std::int64_t image, std::int64_t group, const T* x, T* col);
// Adds each element of col to its pixel of dx, in the order of the taps. A thread owns a pixel.
template <class T>
void col2im(cudaStream_t s, const conv_geometry& g, std::int64_t image, std::int64_t group, const T* col, T* dx);

}  // namespace troupe::cuda::kernels
