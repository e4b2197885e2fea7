// How exact a GPU's products and convolutions must be, and how much memory they may use. A job
// states it; other devices ignore it.
#pragma once

#include <cstddef>

namespace troupe {

struct maths_rules {
  bool tf32 = false;                                    // f32 factors may be rounded to TF32 (10 bits of mantissa)
  std::size_t conv_workspace = std::size_t{256} << 20;  // bytes of workspace of one convolution at most
  friend bool operator==(const maths_rules&, const maths_rules&) = default;
};

}  // namespace troupe
