#include "runtime/node/images/decode.hpp"

#include <cassert>

#include "runtime/node/images/codecs.hpp"

namespace troupe::images {
namespace {

std::string text_of(std::int64_t height, std::int64_t width) { return std::to_string(height) + " x " + std::to_string(width); }

// ITU-R 601-2 luma in 16-bit fixed point.
void to_grey(image& m) {
  const auto n = static_cast<std::size_t>(m.height * m.width);
  auto* p = m.bytes.data();
  for (std::size_t i = 0; i < n; ++i)
    p[i] = static_cast<std::uint8_t>((p[3 * i] * 19595u + p[3 * i + 1] * 38470u + p[3 * i + 2] * 7471u + 0x8000u) >> 16);
  m.bytes.resize(n);
  m.channels = 1;
}

void to_rgb(image& m) {
  const auto n = static_cast<std::size_t>(m.height * m.width);
  m.bytes.resize(3 * n);
  auto* p = m.bytes.data();
  for (auto i = n; i-- > 0;) {
    const auto grey = p[i];
    p[3 * i] = p[3 * i + 1] = p[3 * i + 2] = grey;
  }
  m.channels = 3;
}

}  // namespace

expected<void> check_size(std::int64_t height, std::int64_t width, wanted_size want) {
  if ((want.height != 0 && height != want.height) || (want.width != 0 && width != want.width))
    return unexpected(error("is " + text_of(height, width) + " pixels (height x width), not " + text_of(want.height, want.width)));
  if (height < 1 || width < 1) return unexpected(error("has no pixels: " + text_of(height, width)));
  if (height > max_pixels / width)
    return unexpected(error("too large an image: " + text_of(height, width) + " (height x width), at most 2^26 pixels"));
  return {};
}

image_result decode_image(std::span<const std::uint8_t> file, int channels, wanted_size want) {
  assert(channels == 1 || channels == 3);
  if (file.empty()) return unexpected(error("an empty file"));
  if (!is_png(file) && !is_jpeg(file)) return unexpected(error("neither a PNG nor a JPEG, by its first bytes"));
  auto r = is_png(file) ? decode_png(file, want) : decode_jpeg(file, want);
  if (r && r->channels != channels) channels == 1 ? to_grey(*r) : to_rgb(*r);
  return r;
}

void append_planes(const image& m, channel_order order, std::vector<std::uint8_t>& out) {
  const auto channels = static_cast<std::size_t>(m.channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (auto k = order == channel_order::bgr ? channels - 1 - c : c; k < m.bytes.size(); k += channels) out.push_back(m.bytes[k]);
}

expected<image_size> size_of_image(std::span<const std::uint8_t> file, wanted_size want) {
  if (file.empty()) return unexpected(error("an empty file"));
  if (!is_png(file) && !is_jpeg(file)) return unexpected(error("neither a PNG nor a JPEG, by its first bytes"));
  auto r = is_png(file) ? size_of_png(file) : size_of_jpeg(file);
  if (r)
    if (const auto fine = check_size(r->height, r->width, want); !fine) return unexpected(fine.error());
  return r;
}

}  // namespace troupe::images
