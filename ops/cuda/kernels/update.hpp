// Update rules on the GPU: the kernels of device::sgd_update and adaptive_update. ops/device.hpp
// lists the formulas, ops/geometry.hpp the numbers of the specs.
//
// T is float or double. All tensors have n elements in device memory. An output is the memory of an
// input or does not overlap it. A call without elements launches nothing. Factors that do not
// depend on the element are computed in f64 on the host and rounded to T. All results have the bits
// of the CPU device.
// Errors: cuda_error if a launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

// v and v_out are null if the momentum is 0.
template <class T>
void sgd_update(cudaStream_t stream, const sgd_spec& s, std::int64_t n, const T* w, const T* g, const T* v, T* w_out, T* v_out);

// The states in the order of ops/device.hpp; the pointers beyond those of the rule are null. The
// arrays are in host memory.
template <class T>
void adaptive_update(cudaStream_t stream, const adaptive_spec& s, std::int64_t n, const T* w, const T* g,
                     const std::array<const T*, 3>& states, T* w_out, const std::array<T*, 3>& states_out);

}  // namespace troupe::cuda::kernels
