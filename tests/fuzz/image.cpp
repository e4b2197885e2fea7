// Fuzz target: PNG and JPEG files. Half of the PNG files get valid checksums.
#include <zlib.h>

#include "runtime/node/images/decode.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/image_files.hpp"

namespace troupe::fuzz {
namespace {

void repair(std::vector<std::uint8_t>& png) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const auto n = (std::size_t{png[at]} << 24) | (std::size_t{png[at + 1]} << 16) | (std::size_t{png[at + 2]} << 8) | png[at + 3];
    if (n > png.size() || at + 12 + n > png.size()) return;
    const auto crc = ::crc32(0, png.data() + at + 4, static_cast<uInt>(n + 4));
    for (std::size_t i = 0; i < 4; ++i) png[at + 8 + n + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    at += 12 + n;
  }
}

void read_image(input in) {
  reader r(in);
  const auto how = r.number(1);
  std::vector<std::uint8_t> b(r.rest().begin(), r.rest().end());
  if (how & 1) repair(b);
  const int channels = how & 2 ? 3 : 1;
  const auto size = images::size_of_image(b);
  // A large valid image takes too long to decode.
  if (const auto* s = size ? &*size : nullptr; s && s->height * s->width > 1 << 16 && (how & 4) == 0) return;
  const auto read = images::decode_image(b, channels, how & 4 ? images::wanted_size{12, 20} : images::wanted_size{});
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto& m = *read;
  must(static_cast<std::int64_t>(m.bytes.size()) == m.height * m.width * m.channels && m.channels == channels,
       "the size of the image does not match its extents");
}

std::vector<std::string> sound_image() {
  using namespace image_test;
  const auto rows = picture(20, 12, 3, 3), grey = picture(20, 12, 1, 5), ink = picture(20, 12, 4, 6);
  std::vector<std::string> all;
  for (const auto& b :
       {png_of(20, 12, rows), png_of(20, 12, rows, {.interlaced = true}),
        png_of(20, 12, grey,
               {.colour = PNG_COLOR_TYPE_PALETTE, .palette = std::vector<png_color>(250), .transparent = bytes(9, 1)}),
        png_of(10, 12, grey, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 16}), jpeg_of(20, 12, rows),
        jpeg_of(20, 12, rows, {.progressive = true}),
        jpeg_of(20, 12, grey, {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .channels = 1}),
        jpeg_of(20, 12, ink, {.in = JCS_CMYK, .stored = JCS_YCCK, .channels = 4})})
    for (const char how : {'\3', '\5'}) all.push_back(how + text(b));
  return all;
}

const entry image_entry({"image", read_image, sound_image});

}  // namespace
}  // namespace troupe::fuzz
