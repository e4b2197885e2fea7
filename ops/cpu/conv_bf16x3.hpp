// What the files of the algorithm bf16x3 share (conv_bf16x3.cpp).
#pragma once

#include "ops/cpu/bf16x3.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

// The matrix unit is configured while this lives.
class tiles_in_use {
 public:
  explicit tiles_in_use(const bf16x3_kernels& k) : k_(k) { k.begin(); }
  ~tiles_in_use() { k_.end(); }
  tiles_in_use(const tiles_in_use&) = delete;
  tiles_in_use& operator=(const tiles_in_use&) = delete;

 private:
  const bf16x3_kernels& k_;
};

// Images whose rows of so many places fill a tile's row together.
inline i64 mixed_images(i64 places) { return std::max<i64>(1, 16 / places); }

// The elements of the units of a row, stored as `stride` phases of `phase` places each
// (conv_stage.hpp), `mixed` images side by side in each place, of which `images` are there, `image`
// elements apart. `left`: places before the first of `width` elements.
inline void interleave(i64 images, i64 mixed, i64 stride, i64 phase, i64 left, i64 width, i64 image, i64 count,
                       std::int32_t* from) {
  for (i64 u = 0; u < count; ++u) {
    const i64 place = u / mixed, i = u % mixed, column = place % phase * stride + place / phase - left;
    const bool there = place < stride * phase && i < images && column >= 0 && column < width;
    from[u] = there ? static_cast<std::int32_t>(i * image + column) : -1;
  }
}

void bf16x3_weights(device& d, const kernels<float>& k, const conv_geometry& g, const float* x, const float* dy, float* dw,
                    bool add);

}  // namespace troupe::cpu
