// Adds bf16 tensors to the CPU device. `within` is the device of f32 and f64. A primitive with bf16
// tensors widens its inputs to f32, computes in f32, and rounds each bf16 output once; products are
// those of bf16_product.hpp. Element-wise and image-wise primitives run piece by piece, so that the
// widened tensors stay in the cache. Threads, errors: as device.
#pragma once

#include <memory>

#include "ops/cpu/amx.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// tiles: kernels of the products; null for the f32 kernels.
std::unique_ptr<device> with_bf16(std::unique_ptr<device> within, const half_kernels& k, const amx_kernels* tiles);

}  // namespace troupe::cpu
