// The convolution algorithms of the CPU: one conv_passes each, in conv_<name>.cpp. An algorithm is
// called only for geometries that why_not() of ops/conv_algorithm.hpp accepts.
#pragma once

#include <initializer_list>

#include "ops/cpu/conv_rule.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

template <class T>
struct conv_passes {
  using forward_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* x, const T* w, const T* bias, T* y);
  using data_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* dy, const T* w, T* dx);
  using weights_pass = void(device&, const kernels<T>&, const conv_geometry&, const T* x, const T* dy, T* dw, bool add);
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
conv_passes<float> conv_direct();  // f32 only; backward_data uses lowering1 for strides
conv_passes<float> conv_batch();   // f32 only: direct with vectors of images
// conv_batch with max pooling on the vectors, and with all gradients computed from one set of
// vectors. Null: the gradient is not needed, or (window) there is no pooling.
void conv_batch_pooled(device& d, const kernels<float>& k, const conv_geometry& g, const pool_geometry& window, const float* x,
                       const float* w, const float* bias, float* y, std::int32_t* index);
void conv_batch_backward(device& d, const kernels<float>& k, const conv_geometry& g, const pool_geometry* window, const float* x,
                         const float* w, const float* dy, const std::int32_t* index, float* dx, float* dw, float* db);
// Returns true if these passes of the geometry use conv_batch.
bool in_vectors(const conv_geometry& g, std::initializer_list<conv_pass> passes, cpu_level level);

conv_passes<float> conv_winograd();   // f32 only
conv_passes<float> conv_winograd4();  // f32 only
conv_passes<float> conv_bf16x3();     // f32 only, if bf16x3_here()
// onednn: onednn.hpp, f32 only

// Number of images that pass through all steps of a geometry before the next ones. Their
// activations fit in the L2 cache, and they are enough to amortise work per call such as packing
// the weights.
i64 images_at_once(const conv_geometry& g, cpu_level level);

// The algorithm of one pass of this geometry.
template <class T>
conv_passes<T> passes_of(const conv_geometry& g, conv_pass pass, cpu_level level);

}  // namespace troupe::cpu
