// oneDNN's convolutions, an optional part of the CPU device: ops/onednn if cmake/onednn.cmake finds
// the library, otherwise ops/onednn_none. f32 only.
#pragma once

#include <string>

#include "ops/cpu/conv.hpp"

namespace troupe::cpu {

// Library, version and the instruction set that it generates code for, "onednn-2.6.3-avx512_core".
// Equal ids give equal bits. Empty if the build has no oneDNN.
std::string onednn_id();

// Call only if onednn_id() is not empty.
conv_passes<float> conv_onednn();
// The gradients of weights and bias in one call, assigned or added to the existing values. db: null
// if not needed.
void conv_onednn_parameters(device& d, const kernels<float>& k, const conv_geometry& g, const float* x, const float* dy, float* dw,
                            float* db, bool add);

}  // namespace troupe::cpu
