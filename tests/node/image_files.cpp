#include "tests/node/image_files.hpp"

#include <cstdlib>

namespace troupe::image_test {
namespace {

void append(png_structp png, png_bytep data, std::size_t n) {
  auto* out = static_cast<bytes*>(png_get_io_ptr(png));
  out->insert(out->end(), data, data + n);
}

}  // namespace

bytes png_of(std::uint32_t width, std::uint32_t height, const bytes& entries, const png_form& form) {
  bytes out;
  auto* png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  auto* info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, nullptr);
  png_set_IHDR(png, info, width, height, form.depth, form.colour, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!form.palette.empty()) png_set_PLTE(png, info, form.palette.data(), static_cast<int>(form.palette.size()));
  if (!form.transparent.empty())
    png_set_tRNS(png, info, form.transparent.data(), static_cast<int>(form.transparent.size()), nullptr);
  png_write_info(png, info);
  const auto stride = png_get_rowbytes(png, info);
  if (entries.size() != stride * height) std::abort();
  std::vector<png_bytep> list;
  for (std::size_t y = 0; y < height; ++y) list.push_back(const_cast<png_bytep>(entries.data() + y * stride));
  png_write_image(png, list.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

bytes jpeg_of(std::uint32_t width, std::uint32_t height, const bytes& entries, const jpeg_form& form) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&c, &memory, &size);
  c.image_width = width;
  c.image_height = height;
  c.input_components = form.channels;
  c.in_color_space = form.in;
  jpeg_set_defaults(&c);
  jpeg_set_colorspace(&c, form.stored);
  jpeg_set_quality(&c, form.quality, TRUE);
  if (!form.half_chroma)
    for (int i = 0; i < c.num_components; ++i) c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
  if (form.progressive) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  const auto stride = width * static_cast<std::size_t>(form.channels);
  if (entries.size() != stride * height) std::abort();
  while (c.next_scanline < height) {
    auto* row = const_cast<JSAMPROW>(entries.data() + c.next_scanline * stride);
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  bytes out(memory, memory + size);
  std::free(memory);
  return out;
}

bytes picture(std::uint32_t width, std::uint32_t height, int channels, unsigned number) {
  bytes out;
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x)
      for (unsigned c = 0; c < static_cast<unsigned>(channels); ++c)
        out.push_back(static_cast<std::uint8_t>(40 + (number * 37 + c * 50) % 100 + 60 * x / width + 40 * y / height));
  return out;
}

void put(const std::string& path, const bytes& b) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  test::write_bytes(path, b);
}

void write_set(const std::string& folder, const std::vector<std::string>& classes, unsigned train, unsigned test,
               std::uint32_t side) {
  unsigned number = 0;
  for (const auto& c : classes)
    for (unsigned i = 0; i < train + test; ++i, ++number) {
      const auto name = folder + (i < train ? "/train/" : "/test/") + c + "/" + std::to_string(1000 + i);
      const auto entries = picture(side, side, 3, number);
      if (number % 2 == 0)
        put(name + ".png", png_of(side, side, entries));
      else
        put(name + ".jpg", jpeg_of(side, side, entries));
    }
}

}  // namespace troupe::image_test
