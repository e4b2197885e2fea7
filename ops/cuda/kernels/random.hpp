// Random numbers on the GPU: the kernels of device::dropout, sample, fill_uniform and
// fill_gaussian. Generator: Philox 4x32-10 (Salmon et al. 2011), numbered as in
// ops/cpu/random.inl. Normal numbers: Box and Muller 1958.
//
// T is float or double. All pointers are device memory. A call without elements launches nothing.
// All results have the bits of the CPU device.
// Errors: cuda_error if a launch is refused.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/device.hpp"

namespace troupe::cuda::kernels {

// y = x mask / (1 - ratio), 0 <= ratio < 1. x, y: [rows, row_length]; y may be x. Row r is example
// first_example + r.
template <class T>
void dropout(cudaStream_t stream, const rng_stream& s, std::uint64_t first_example, double ratio, std::int64_t rows,
             std::int64_t row_length, const T* x, T* y);

// bernoulli: y = 1 with probability x, else 0. gaussian: y = x + a number of mean 0 and variance 1.
// x, y: [rows, row_length]; y may be x. Row r is example first_example + r.
template <class T>
void sample(cudaStream_t stream, draw d, const rng_stream& s, std::uint64_t first_example, std::int64_t rows,
            std::int64_t row_length, const T* x, T* y);

// t: [n], uniform numbers in (low, high).
template <class T>
void fill_uniform(cudaStream_t stream, const rng_stream& s, double low, double high, std::int64_t n, T* t);

// t: [n], normal numbers.
template <class T>
void fill_gaussian(cudaStream_t stream, const rng_stream& s, double mean, double deviation, std::int64_t n, T* t);

}  // namespace troupe::cuda::kernels
