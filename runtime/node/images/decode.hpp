// One image file in memory, PNG (libpng) or JPEG (libjpeg-turbo), told apart by its first bytes and
// not by its name. What comes out is what most training loops see: 8 bits, grey (1 channel) or RGB
// (3). 16 bits are rounded to 8, palettes and greys of 1 to 4 bits expanded, alpha and transparent
// colours dropped, gamma, colour profiles and EXIF orientation ignored, CMYK (inverted, as Adobe
// writes it and everybody reads it) turned into RGB. RGB becomes grey by ITU-R 601-2 luma, grey
// becomes RGB by repeating. Errors: values; any bytes are answered by an image or by a message, and
// pixels are allocated only after the size has been checked. What a codec only warns about while it
// makes up pixels (data that ends early, bad codes) is an error too.
// Threading: no shared state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe::images {

// An image of more pixels is refused whatever is asked for: nobody trains on them, and headers lie.
constexpr std::int64_t max_pixels = std::int64_t{1} << 26;

struct image {
  std::int64_t height = 0, width = 0;
  int channels = 0;
  std::vector<std::uint8_t> bytes;  // [height][width][channels]
};
using image_result = std::variant<image, std::string>;

// Not zero: an image of another size is an error, found from its header.
struct wanted_size {
  std::int64_t height = 0, width = 0;
};

struct image_size {
  std::int64_t height = 0, width = 0;
};
// The size that the header of an image file tells, whether or not its pixels are sound; the message
// for a `file` that is only the beginning of one may be that it is truncated.
std::variant<image_size, std::string> size_of_image(std::span<const std::uint8_t> file, wanted_size want = {});

// `channels`: 1 or 3.
image_result decode_image(std::span<const std::uint8_t> file, int channels, wanted_size want = {});

}  // namespace troupe::images
