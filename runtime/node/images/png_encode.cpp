#include "runtime/node/images/png_encode.hpp"

#include <png.h>

#include <cstddef>

namespace troupe::images {

expected<std::vector<std::uint8_t>> encode_png(const image& i) {
  if (i.width < 1 || i.height < 1 || i.width > max_pixels / i.height || (i.channels != 1 && i.channels != 3))
    return unexpected(error("an image needs pixels of 1 or 3 channels"));
  if (i.bytes.size() != static_cast<std::size_t>(i.width * i.height * i.channels))
    return unexpected(error("the pixels do not fill the image"));
  png_image out{};
  out.version = PNG_IMAGE_VERSION;
  out.width = static_cast<png_uint_32>(i.width);
  out.height = static_cast<png_uint_32>(i.height);
  out.format = i.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const auto stride = static_cast<png_int_32>(i.width * i.channels);
  png_alloc_size_t size = 0;
  std::vector<std::uint8_t> file;
  if (png_image_write_to_memory(&out, nullptr, &size, 0, i.bytes.data(), stride, nullptr) != 0) {
    file.resize(size);
    if (png_image_write_to_memory(&out, file.data(), &size, 0, i.bytes.data(), stride, nullptr) != 0) {
      file.resize(size);
      return file;
    }
  }
  return unexpected(error(std::string("libpng: ") + out.message));
}

}  // namespace troupe::images
