// The algorithms of convolution on the CPU: one row of passes each, one file each (conv_<name>.cpp). ops/conv_algorithm.hpp says
// which geometries a row takes; it is called for no other.
#pragma once

#include "ops/conv_algorithm.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

template <class T>
struct conv_passes {
  using forward_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* x, const T* w, const T* bias, T* y);
  using data_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* dy, const T* w, T* dx);
  using weights_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* x, const T* dy, T* dw);
  forward_pass* forward;
  data_pass* backward_data;
  weights_pass* backward_weights;
};

template <class T>
conv_passes<T> conv_lowering1();
template <class T>
conv_passes<T> conv_lowering2();
template <class T>
conv_passes<T> conv_lowering3();
conv_passes<float> conv_direct();    // f32 only; backward_data falls back on lowering1 for strides
conv_passes<float> conv_batch();     // f32 only: direct with vectors of images
conv_passes<float> conv_winograd();  // f32 only
// onednn: onednn.hpp, f32 only

// The row for one pass of this geometry; `wide`: kernels for 32 registers of 512 bits.
template <class T>
conv_passes<T> passes_of(const conv_geometry& g, conv_pass pass, bool wide);

}  // namespace troupe::cpu
