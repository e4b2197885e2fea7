// Bilinear resizing with pixel centres at half integers. When the image shrinks, the triangle
// filter is widened by the factor, so that every input pixel contributes ("bilinear" with antialias
// in PIL and torchvision); plain sampling would skip most pixels of a photograph. The aspect ratio
// is not kept. Sums in double, over the width and then over the height, rounded once.
#pragma once

#include "runtime/node/images/decode.hpp"

namespace troupe::images {

// Requires height, width >= 1.
image resized(const image& in, std::int64_t height, std::int64_t width);

}  // namespace troupe::images
