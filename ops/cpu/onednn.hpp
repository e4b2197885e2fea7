// oneDNN's convolutions, an optional part of the CPU device: ops/onednn where cmake/onednn.cmake
// finds the library, ops/onednn_none elsewhere. f32 only.
#pragma once

#include <string>

#include "ops/cpu/conv.hpp"

namespace troupe::cpu {

// Library, version and the instruction set it generates code for, "onednn-2.6.3-avx512_core": equal
// words, equal bits. Empty: this build has none.
std::string onednn_id();

// To be called only where onednn_id() says something.
conv_passes<float> conv_onednn();
// The gradients of weights and bias (null: nobody wants it) in one call; added to what is there, or
// assigned.
void conv_onednn_parameters(device& d, const kernels<float>& k, const conv_geometry& g, const float* x, const float* dy, float* dw,
                            float* db, bool add);

}  // namespace troupe::cpu
