// Shared by the files of the algorithm bf16x3 (conv_bf16x3.cpp).
#pragma once

#include "ops/cpu/bf16x3.hpp"
#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

// Configures the matrix unit for its lifetime.
class tiles_in_use {
 public:
  explicit tiles_in_use(const bf16x3_kernels& k) : k_(k) { k.begin(); }
  ~tiles_in_use() { k_.end(); }
  tiles_in_use(const tiles_in_use&) = delete;
  tiles_in_use& operator=(const tiles_in_use&) = delete;

 private:
  const bf16x3_kernels& k_;
};

// Number of images whose rows of `places` together fill a row of a tile.
inline i64 mixed_images(i64 places) { return std::max<i64>(1, 16 / places); }

// Computes the element of each unit of a row. The row is stored as `stride` phases of `phase`
// places (conv_stage.hpp), with `mixed` images interleaved in each place, of which `images` exist,
// `image` elements apart. `left`: places before the first of `width` elements.
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
