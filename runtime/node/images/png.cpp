// PNG by libpng's row interface.
#include <png.h>

#include <cstdio>
#include <cstring>

#include "runtime/data/file_bytes.hpp"
#include "runtime/node/images/codecs.hpp"

namespace troupe::images {
namespace {

constexpr png_uint_32 max_png_side = 65535;

struct png_state {
  png_structp png;
  png_infop info;
  const std::uint8_t* next;
  std::size_t left;
  std::uint8_t* out;
  std::size_t stride;
  char message[160];
  std::jmp_buf stop;
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* s = static_cast<png_state*>(png_get_error_ptr(png));
  std::snprintf(s->message, sizeof s->message, "%s", text);
  std::longjmp(s->stop, 1);
}

// libpng warns only about damaged or unusual ancillary chunks, which do not affect the pixels.
void on_warning(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep to, std::size_t n) {
  auto* s = static_cast<png_state*>(png_get_io_ptr(png));
  if (n > s->left) png_error(png, "truncated");
  std::memcpy(to, s->next, n);
  s->next += n;
  s->left -= n;
}

void read_header(png_state& s) {
  s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
  if (!s.png) {
    std::snprintf(s.message, sizeof s.message, "libpng cannot start");
    std::longjmp(s.stop, 1);
  }
  s.info = png_create_info_struct(s.png);
  if (!s.info) png_error(s.png, "out of memory");
  png_set_user_limits(s.png, max_png_side, max_png_side);
  png_set_read_fn(s.png, &s, take);
  png_read_info(s.png, s.info);
}

void ask_for_8_bits_without_alpha(png_state& s) {
  png_set_expand(s.png);    // palettes, 1 to 4 bits, tRNS as alpha
  png_set_scale_16(s.png);  // rounds; strip_16 would truncate
  png_set_strip_alpha(s.png);
}

void read_pixels(png_state& s) {
  ask_for_8_bits_without_alpha(s);
  const int passes = png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  if (png_get_rowbytes(s.png, s.info) != s.stride) png_error(s.png, "rows of an unexpected length");
  const auto height = png_get_image_height(s.png, s.info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(s.png, s.out + y * s.stride, nullptr);
  png_read_end(s.png, nullptr);
}

class png_decoder {
 public:
  explicit png_decoder(std::span<const std::uint8_t> file) : size_(file.size()) {
    s_.next = file.data();
    s_.left = file.size();
  }
  ~png_decoder() { png_destroy_read_struct(&s_.png, &s_.info, nullptr); }
  png_decoder(const png_decoder&) = delete;
  png_decoder& operator=(const png_decoder&) = delete;

  size_result size() {
    if (!guarded(s_, read_header)) return unexpected(message());
    return image_size{png_get_image_height(s_.png, s_.info), png_get_image_width(s_.png, s_.info), channels()};
  }

  image_result decode(wanted_size want) {
    if (!guarded(s_, read_header)) return unexpected(message());
    image out;
    out.height = png_get_image_height(s_.png, s_.info);
    out.width = png_get_image_width(s_.png, s_.info);
    if (auto fine = check_size(out.height, out.width, want); !fine) return unexpected(fine.error());
    const auto packed = static_cast<std::uint64_t>(png_get_rowbytes(s_.png, s_.info)) * static_cast<std::uint64_t>(out.height);
    if (packed / deflate_ratio > size_)
      return unexpected(error("broken PNG: the header states " + std::to_string(packed) +
                              " bytes of rows, which cannot be encoded in " + std::to_string(size_) + " bytes"));
    out.channels = channels();
    s_.stride = static_cast<std::size_t>(out.width * out.channels);
    out.bytes.resize(s_.stride * static_cast<std::size_t>(out.height));
    s_.out = out.bytes.data();
    if (!guarded(s_, read_pixels)) return unexpected(message());
    return out;
  }

 private:
  int channels() const { return (png_get_color_type(s_.png, s_.info) & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1; }
  std::string message() const { return std::string("broken PNG: ") + s_.message; }

  png_state s_{};
  std::size_t size_;
};

}  // namespace

bool is_png(std::span<const std::uint8_t> file) { return file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0; }

size_result size_of_png(std::span<const std::uint8_t> file) { return png_decoder(file).size(); }

image_result decode_png(std::span<const std::uint8_t> file, wanted_size want) { return png_decoder(file).decode(want); }

}  // namespace troupe::images
