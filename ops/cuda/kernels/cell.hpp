// Recurrent cells on the GPU: the kernels of device::cell_forward and cell_backward. cell_spec in
// ops/geometry.hpp lists layouts, formulas and papers.
//
// T is float or double. All pointers are device memory:
//   bias                         [gates][units]
//   gates, dgates                [rows][gates][units]
//   h_before, h, c_before, c     [rows][units], as their gradients dh and dc
//   y, dy                        [rows][units], with s.stride elements between rows
// A call without elements launches nothing. exp and tanh are those of CUDA: results differ from the
// CPU device by rounding.
// Errors: cuda_error if a launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include "ops/geometry.hpp"

namespace troupe::cuda::kernels {

// gates: in, sums of products; out, values of the gates (unchanged for rnn). h and y receive the
// same values. c_before and c are for lstm only and null otherwise; h_before is read for gru only.
template <class T>
void cell_forward(cudaStream_t stream, const cell_spec& s, const T* bias, T* gates, const T* h_before, const T* c_before, T* c,
                  T* h, T* y);

// dh: in, the gradient from the next step; out, the gradient of h_before that bypasses the products
// (gru only, otherwise not written). dc: in, the gradient of c; out, that of c_before (lstm only,
// otherwise null). gates, h_before, c_before and c may be null for rnn; c_before and c for gru.
template <class T>
void cell_backward(cudaStream_t stream, const cell_spec& s, const T* gates, const T* h_before, const T* h, const T* c_before,
                   const T* c, const T* dy, T* dh, T* dc, T* dgates);

}  // namespace troupe::cuda::kernels
