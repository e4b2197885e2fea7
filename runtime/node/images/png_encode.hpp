// Encodes pixels as a PNG file, by libpng.
// Errors: values. Threads: a function without state.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/node/images/decode.hpp"

namespace troupe::images {

// The content of a PNG file.
expected<std::vector<std::uint8_t>> encode_png(const image& i);

}  // namespace troupe::images
