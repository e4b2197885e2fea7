// Convolution without a column matrix: images are staged with their padding, panels of pixels are gathered from the stage and
// multiplied at once, so that what would be the column matrix never leaves the cache. See conv.cpp.
#pragma once

#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

template <class T>
void conv_forward(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* w, const T* bias, T* y);
template <class T>
void conv_backward_data(device& d, const kernels<T>& k, const conv_geometry& g, const T* dy, const T* w, T* dx);
template <class T>
void conv_backward_weights(device& d, const kernels<T>& k, const conv_geometry& g, const T* x, const T* dy, T* dw);

}  // namespace troupe::cpu
