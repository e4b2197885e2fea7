// JPEG by libjpeg-turbo's scanline interface: baseline and progressive, 8 bits, grey, YCbCr, RGB,
// CMYK and YCCK. Uses the accurate integer DCT and smooth chroma, so that the bytes equal those of
// every program that uses the library's defaults.
#include <cstddef>
#include <cstdio>

// libjpeg's headers need <cstdio> before them, and jerror.h needs the version in jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

#include "runtime/node/images/codecs.hpp"

namespace troupe::images {
namespace {

constexpr int max_scans = 100;  // of a progressive file; ten are usual, and each costs a pass over the image

constexpr std::uint64_t pixels_a_byte = 256 * 8;  // at most

struct jpeg_state {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  const std::uint8_t* file;
  std::size_t size;
  std::uint8_t* out;
  std::size_t stride;
  char message[JMSG_LENGTH_MAX];
  std::jmp_buf stop;
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* s = static_cast<jpeg_state*>(info->client_data);
  s->errors.format_message(info, s->message);
  std::longjmp(s->stop, 1);
}

// Ignores warnings about the container. All others mean that pixels would be made up: errors.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
  on_error(info);
}

void print_nothing(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  auto* s = static_cast<jpeg_state*>(info->client_data);
  if (s->info.input_scan_number <= max_scans) return;
  std::snprintf(s->message, sizeof s->message, "more than %d scans", max_scans);
  std::longjmp(s->stop, 1);
}

void read_header(jpeg_state& s) {
  jpeg_create_decompress(&s.info);
  s.info.progress = &s.progress;
  jpeg_mem_src(&s.info, s.file, s.size);
  jpeg_read_header(&s.info, TRUE);
}

void read_pixels(jpeg_state& s) {
  jpeg_start_decompress(&s.info);
  while (s.info.output_scanline < s.info.output_height) {
    JSAMPROW row = s.out + s.info.output_scanline * s.stride;
    jpeg_read_scanlines(&s.info, &row, 1);
  }
  jpeg_finish_decompress(&s.info);
}

// Inverted CMYK: each value is the light that the ink lets through, so RGB is colour times key.
void cmyk_to_rgb(image& m) {
  const auto n = static_cast<std::size_t>(m.width * m.height);
  auto* out = m.bytes.data();  // never ahead of `in`
  const auto* in = m.bytes.data();
  for (std::size_t i = 0; i < n; ++i, in += 4) {
    const unsigned key = in[3];
    for (int c = 0; c < 3; ++c) *out++ = static_cast<std::uint8_t>((in[c] * key + 127) / 255);
  }
  m.bytes.resize(3 * n);
  m.channels = 3;
}

class jpeg_decoder {
 public:
  explicit jpeg_decoder(std::span<const std::uint8_t> file) {
    s_.info.client_data = &s_;
    s_.info.err = jpeg_std_error(&s_.errors);
    s_.errors.error_exit = on_error;
    s_.errors.emit_message = on_message;
    s_.errors.output_message = print_nothing;
    s_.progress.progress_monitor = on_progress;
    s_.file = file.data();
    s_.size = file.size();
  }
  ~jpeg_decoder() { jpeg_destroy_decompress(&s_.info); }
  jpeg_decoder(const jpeg_decoder&) = delete;
  jpeg_decoder& operator=(const jpeg_decoder&) = delete;

  size_result size() {
    if (!guarded(s_, read_header)) return unexpected(message());
    return image_size{s_.info.image_height, s_.info.image_width, s_.info.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3};
  }

  image_result decode(wanted_size want) {
    if (!guarded(s_, read_header)) return unexpected(message());
    image out;
    out.height = s_.info.image_height;
    out.width = s_.info.image_width;
    if (auto fine = check_size(out.height, out.width, want); !fine) return unexpected(fine.error());
    // With any sampling, some component has at least one block of 64 values per 256 pixels, and a
    // block takes at least one bit of Huffman code.
    const auto pixels = static_cast<std::uint64_t>(out.height) * static_cast<std::uint64_t>(out.width);
    if (!s_.info.arith_code && pixels / pixels_a_byte > s_.size)
      return unexpected(error("broken JPEG: the header states " + std::to_string(pixels) + " pixels, which cannot be encoded in " +
                              std::to_string(s_.size) + " bytes"));
    out.channels = choose_colours();
    if (out.channels == 0)
      return unexpected(error("a JPEG of " + std::to_string(s_.info.num_components) + " components of unknown colours"));
    s_.stride = static_cast<std::size_t>(out.width * out.channels);
    out.bytes.resize(s_.stride * static_cast<std::size_t>(out.height));
    s_.out = out.bytes.data();
    if (!guarded(s_, read_pixels)) return unexpected(message());
    if (out.channels == 4) cmyk_to_rgb(out);
    return out;
  }

 private:
  int choose_colours() {
    auto& i = s_.info;
    i.dct_method = JDCT_ISLOW;
    switch (i.jpeg_color_space) {
      case JCS_GRAYSCALE: i.out_color_space = JCS_GRAYSCALE; return 1;
      case JCS_YCbCr:
      case JCS_RGB: i.out_color_space = JCS_RGB; return 3;
      case JCS_CMYK:
      case JCS_YCCK: i.out_color_space = JCS_CMYK; return 4;
      default: return 0;
    }
  }
  std::string message() const { return std::string("broken JPEG: ") + s_.message; }

  jpeg_state s_{};
};

}  // namespace

bool is_jpeg(std::span<const std::uint8_t> file) {
  return file.size() >= 3 && file[0] == 0xff && file[1] == 0xd8 && file[2] == 0xff;
}

size_result size_of_jpeg(std::span<const std::uint8_t> file) { return jpeg_decoder(file).size(); }

image_result decode_jpeg(std::span<const std::uint8_t> file, wanted_size want) { return jpeg_decoder(file).decode(want); }

}  // namespace troupe::images
