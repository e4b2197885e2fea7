// Adds bf16 tensors to a stream: cuBLAS and cuDNN compute products and convolutions of bf16, and
// other primitives widen bf16 inputs to f32, compute in f32, and round each bf16 output once
// (ops/widened.hpp). Threads, errors: as device.
#pragma once

#include <memory>

#include "ops/cuda/stream.hpp"

namespace troupe::cuda {

// Returns a new stream of the GPU for f32, f64 and bf16.
std::unique_ptr<device> make_stream_of(std::shared_ptr<gpu> g);

}  // namespace troupe::cuda
