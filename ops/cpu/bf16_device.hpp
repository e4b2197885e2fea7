// The CPU device as others see it: the one of f32 and f64 (`within`), and around it what bf16
// tensors need. A primitive of which some tensors are bf16 reads them widened to f32, computes in
// f32, and rounds what goes to a bf16 tensor once; products are bf16_product.hpp's. What is element
// by element, or image by image, is done piece by piece, so that what is widened stays in the
// cache. Threads, errors: as device.
#pragma once

#include <memory>

#include "ops/cpu/amx.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/device.hpp"

namespace troupe::cpu {

// tiles: what products run on, null for the kernels of f32.
std::unique_ptr<device> with_bf16(std::unique_ptr<device> within, const half_kernels& k, const amx_kernels* tiles);

}  // namespace troupe::cpu
