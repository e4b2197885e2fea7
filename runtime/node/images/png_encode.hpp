// Encodes pixels as a PNG file, by libpng.
// Errors: values. Threads: a function without state.
#pragma once

#include "runtime/node/images/decode.hpp"

namespace troupe::images {

// The content of a PNG file, or why there is none.
std::variant<std::vector<std::uint8_t>, std::string> encode_png(const image& i);

}  // namespace troupe::images
