// Bilinear resizing with pixel centres at half integers. Where the image shrinks, the triangle is
// widened by the factor, so that every pixel counts (PIL's and torchvision's "bilinear" with
// antialias): plain sampling would skip most of a photograph. Aspect is not kept. Sums in double,
// over the width and then over the height, rounded once.
#pragma once

#include "runtime/node/images/decode.hpp"

namespace troupe::images {

// height, width >= 1.
image resized(const image& in, std::int64_t height, std::int64_t width);

}  // namespace troupe::images
