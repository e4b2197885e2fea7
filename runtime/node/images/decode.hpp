// Decodes an image file in memory, PNG (libpng) or JPEG (libjpeg-turbo), recognised by its first
// bytes and not by its name. The result is what most training loops use: 8 bits, grey (1 channel)
// or RGB (3). 16 bits are rounded to 8, palettes and greys of 1 to 4 bits expanded, alpha and
// transparent colours dropped, gamma, colour profiles and EXIF orientation ignored, and CMYK
// (inverted, as Adobe writes it and common readers read it) converted to RGB. RGB becomes grey by
// ITU-R 601-2 luma, grey becomes RGB by repetition.
// Errors: values; any input results in an image or a message, and pixels are allocated only after
// the size has been checked. Codec warnings for which pixels would be made up (data that ends
// early, bad codes) are errors.
// Threading: no shared state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/channel_order.hpp"

namespace troupe::images {

// Larger images are refused, because the size in a header may be wrong and no training uses them.
constexpr std::int64_t max_pixels = std::int64_t{1} << 26;

struct image {
  std::int64_t height = 0, width = 0;
  int channels = 0;
  std::vector<std::uint8_t> bytes;  // [height][width][channels]
};
using image_result = expected<image>;

// If not zero, an image of another size is an error, found from its header.
struct wanted_size {
  std::int64_t height = 0, width = 0;
};

struct image_size {
  std::int64_t height = 0, width = 0;
  int channels = 0;  // as decode_image() would find them: 1 (grey) or 3
};
// The size in the header of an image file; its pixels are not checked. If `file` is only the
// beginning of a file, the message may be that it is truncated.
expected<image_size> size_of_image(std::span<const std::uint8_t> file, wanted_size want = {});

// `channels`: 1 or 3.
image_result decode_image(std::span<const std::uint8_t> file, int channels, wanted_size want = {});

// Appends the bytes plane by plane, as layers expect them: [channels][height][width]. `order`: of
// the planes of an image with three channels.
void append_planes(const image& m, channel_order order, std::vector<std::uint8_t>& out);

}  // namespace troupe::images
