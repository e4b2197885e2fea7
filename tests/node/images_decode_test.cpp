// Decoding of every PNG and JPEG format that a folder may contain, and of invalid bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/data/random.hpp"
#include "runtime/node/images/decode.hpp"
#include "runtime/node/images/image_file.hpp"
#include "runtime/node/images/resize.hpp"
#include "tests/error_text.hpp"
#include "tests/node/image_files.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::images {
namespace {

using namespace image_test;
using testing::ElementsAre;
using testing::HasSubstr;

image decoded(const bytes& file, int channels = 3) {
  auto r = decode_image(file, channels);
  if (!r) {
    ADD_FAILURE() << r.error().text;
    return {};
  }
  return *std::move(r);
}

std::string error(const bytes& file, int channels = 3, wanted_size want = {}) {
  auto r = decode_image(file, channels, want);
  return r ? "no error" : r.error().text;
}

int farthest(const bytes& a, const bytes& b) {
  if (a.size() != b.size()) return 1000;
  int d = 0;
  for (std::size_t i = 0; i < a.size(); ++i) d = std::max(d, std::abs(a[i] - b[i]));
  return d;
}

TEST(images_png, rgb_is_decoded_exactly_interlaced_or_not) {
  const auto entries = picture(13, 7, 3, 1);
  for (const bool interlaced : {false, true}) {
    const auto m = decoded(png_of(13, 7, entries, {.interlaced = interlaced}));
    EXPECT_EQ(m.width, 13);
    EXPECT_EQ(m.height, 7);
    EXPECT_EQ(m.channels, 3);
    EXPECT_EQ(m.bytes, entries);
  }
}

TEST(images_png, grey_images_of_every_depth_are_decoded) {
  EXPECT_THAT(decoded(png_of(8, 1, {0b10010110}, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 1}), 1).bytes,
              ElementsAre(255, 0, 0, 255, 0, 255, 255, 0));
  EXPECT_THAT(decoded(png_of(4, 1, {0b00011011}, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 2}), 1).bytes,
              ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(decoded(png_of(2, 1, {0x1f}, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 4}), 1).bytes, ElementsAre(17, 255));
  EXPECT_THAT(decoded(png_of(2, 1, {9, 200}, {.colour = PNG_COLOR_TYPE_GRAY}), 3).bytes, ElementsAre(9, 9, 9, 200, 200, 200));
  // 16 bits: 0x0080 / 65535 * 255 = 0.498, 0x0081 = 0.502; 0x12ff rounds up, where truncation
  // would give 0x12.
  EXPECT_THAT(
      decoded(png_of(4, 1, {0x00, 0x80, 0x00, 0x81, 0x12, 0xff, 0xff, 0xff}, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 16}), 1)
          .bytes,
      ElementsAre(0, 1, 0x13, 255));
}

TEST(images_png, sixteen_bit_rgb_alpha_and_palettes_become_8_bit_rgb) {
  EXPECT_THAT(decoded(png_of(1, 1, {0x12, 0xff, 0, 0, 0xff, 0xff}, {.depth = 16})).bytes, ElementsAre(0x13, 0, 255));
  EXPECT_THAT(decoded(png_of(2, 1, {1, 2, 3, 0, 4, 5, 6, 128}, {.colour = PNG_COLOR_TYPE_RGB_ALPHA})).bytes,
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(decoded(png_of(2, 1, {70, 0, 80, 255}, {.colour = PNG_COLOR_TYPE_GRAY_ALPHA}), 1).bytes, ElementsAre(70, 80));
  const png_form palette{
      .colour = PNG_COLOR_TYPE_PALETTE, .depth = 2, .palette = {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}}, .transparent = {0}};
  EXPECT_THAT(decoded(png_of(3, 1, {0b01001000}, palette)).bytes, ElementsAre(40, 50, 60, 1, 2, 3, 7, 8, 9));
}

TEST(images_png, rgb_becomes_grey_by_luma) {
  EXPECT_THAT(decoded(png_of(4, 1, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}), 1).bytes, ElementsAre(76, 150, 29, 255));
}

TEST(images_jpeg, decoded_colours_are_close_to_the_original) {
  const auto entries = picture(33, 18, 3, 4);
  EXPECT_LE(farthest(decoded(jpeg_of(33, 18, entries)).bytes, entries), 6);
  EXPECT_LE(farthest(decoded(jpeg_of(33, 18, entries, {.progressive = true})).bytes, entries), 6);
  EXPECT_LE(farthest(decoded(jpeg_of(33, 18, entries, {.stored = JCS_RGB, .half_chroma = false})).bytes, entries), 6);
  const auto grey = picture(33, 18, 1, 4);
  const auto file = jpeg_of(33, 18, grey, {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .channels = 1});
  EXPECT_LE(farthest(decoded(file, 1).bytes, grey), 6);
  const auto m = decoded(file, 3);
  ASSERT_EQ(m.bytes.size(), 3 * grey.size());
  EXPECT_EQ(m.bytes[30], m.bytes[32]);
}

// Inverted CMYK, as Adobe writes it: (255 255 255 255) is white, key 0 is black.
TEST(images_jpeg, cmyk_and_ycck_become_rgb) {
  bytes ink;
  for (int i = 0; i < 64; ++i)
    for (int v : {200, 100, 255, 128}) ink.push_back(static_cast<std::uint8_t>(v));
  for (auto stored : {JCS_CMYK, JCS_YCCK}) {
    const auto m = decoded(jpeg_of(8, 8, ink, {.in = JCS_CMYK, .stored = stored, .channels = 4, .half_chroma = false}));
    ASSERT_EQ(m.channels, 3);
    EXPECT_NEAR(m.bytes[0], 100, 4);
    EXPECT_NEAR(m.bytes[1], 50, 4);
    EXPECT_NEAR(m.bytes[2], 128, 4);
  }
}

TEST(images_decode, a_wrong_size_is_reported_from_the_header) {
  const auto file = png_of(13, 7, picture(13, 7, 3, 1));
  EXPECT_EQ(error(file, 3, {7, 12}), "is 7 x 13 pixels (height x width), not 7 x 12");
  EXPECT_EQ(error(file, 3, {7, 13}), "no error");
  EXPECT_EQ(error(jpeg_of(13, 7, picture(13, 7, 3, 1)), 3, {8, 13}), "is 7 x 13 pixels (height x width), not 8 x 13");
}

TEST(images_decode, files_that_are_not_images_are_errors) {
  EXPECT_EQ(error({}), "an empty file");
  EXPECT_EQ(error({'G', 'I', 'F', '8', '9', 'a', 0, 0, 0}), "neither a PNG nor a JPEG, by its first bytes");
}

TEST(images_decode, every_truncation_is_an_error) {
  const auto entries = picture(16, 16, 3, 2);
  for (const auto& file : {png_of(16, 16, entries), png_of(16, 16, entries, {.interlaced = true}), jpeg_of(16, 16, entries),
                           jpeg_of(16, 16, entries, {.progressive = true})})
    for (std::size_t n = 0; n < file.size(); ++n)
      EXPECT_NE(error({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n)}), "no error") << n;
}

void fix_checksum(bytes& png, std::size_t chunk) {
  const auto n =
      (std::size_t{png[chunk]} << 24) | (std::size_t{png[chunk + 1]} << 16) | (std::size_t{png[chunk + 2]} << 8) | png[chunk + 3];
  if (n > png.size() || chunk + 12 + n > png.size()) return;
  const auto sum = crc32(crc32(0, nullptr, 0), png.data() + chunk + 4, static_cast<uInt>(n + 4));
  for (std::size_t i = 0; i < 4; ++i) png[chunk + 8 + n + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
}

// Corrects the checksums of all chunks, so that mutations reach the code behind that check.
void fix_checksums(bytes& png) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    const auto n = (std::size_t{png[at]} << 24) | (std::size_t{png[at + 1]} << 16) | (std::size_t{png[at + 2]} << 8) | png[at + 3];
    if (n > png.size() || at + 12 + n > png.size()) return;
    fix_checksum(png, at);
    at += 12 + n;
  }
}

// A small file whose header states gigabytes is refused by its header. Otherwise the allocation
// would fail, or the test would take far too long.
TEST(images_decode, huge_sizes_are_refused_from_the_header) {
  auto png = png_of(4, 4, picture(4, 4, 3, 0));
  const auto with_size = [&](std::uint32_t w, std::uint32_t h) {
    for (std::size_t i = 0; i < 4; ++i) {
      png[16 + i] = static_cast<std::uint8_t>(w >> (24 - 8 * i));
      png[20 + i] = static_cast<std::uint8_t>(h >> (24 - 8 * i));
    }
    fix_checksum(png, 8);
    return png;
  };
  EXPECT_THAT(error(with_size(0x7fffffff, 0x7fffffff)), HasSubstr("broken PNG: "));
  EXPECT_THAT(error(with_size(65535, 65535)), HasSubstr("too large an image: 65535 x 65535"));
  EXPECT_THAT(error(with_size(8000, 8000)), HasSubstr("the header states"));
  EXPECT_THAT(error(with_size(0, 4)), HasSubstr("broken PNG: "));
  auto jpeg = jpeg_of(8, 8, picture(8, 8, 3, 0));
  const std::uint8_t sof0[]{0xff, 0xc0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), sof0, sof0 + 2) - jpeg.begin();
  for (int i = 5; i < 9; ++i) jpeg[static_cast<std::size_t>(at + i)] = 0xf0;
  EXPECT_THAT(error(jpeg), HasSubstr("too large an image: 61680 x 61680"));
  for (int i = 5; i < 9; ++i) jpeg[static_cast<std::size_t>(at + i)] = 0xff;
  EXPECT_THAT(error(jpeg), HasSubstr("broken JPEG: Maximum supported image dimension"));
  // Within the pixel limit, but more than the file's bytes can encode.
  for (int i = 5; i < 9; ++i) jpeg[static_cast<std::size_t>(at + i)] = i % 2 == 1 ? 0x1f : 0x40;
  EXPECT_THAT(error(jpeg), HasSubstr("the header states 64000000 pixels, which cannot be encoded in"));
}

TEST(images_decode, fuzzed_files_result_in_an_image_or_a_message) {
  const auto entries = picture(20, 12, 3, 3), grey = picture(20, 12, 1, 5), ink = picture(20, 12, 4, 6);
  const std::vector<bytes> seeds{
      png_of(20, 12, entries),
      png_of(20, 12, entries, {.interlaced = true}),
      png_of(20, 12, grey, {.colour = PNG_COLOR_TYPE_PALETTE, .palette = std::vector<png_color>(250), .transparent = bytes(9, 1)}),
      png_of(10, 12, grey, {.colour = PNG_COLOR_TYPE_GRAY, .depth = 16}),
      jpeg_of(20, 12, entries),
      jpeg_of(20, 12, entries, {.progressive = true}),
      jpeg_of(20, 12, grey, {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .channels = 1}),
      jpeg_of(20, 12, ink, {.in = JCS_CMYK, .stored = JCS_YCCK, .channels = 4})};
  counter_rng rng(12);
  std::uint64_t sound = 0;
  const auto inputs = test::fuzz_inputs(200000);
  for (std::uint64_t i = 0; i < inputs; ++i) {
    auto b = seeds[rng.draw_below(seeds.size())];
    for (auto flips = rng.draw_below(4) + 1; flips > 0; --flips) {
      switch (rng.draw_below(5)) {
        case 0: b.resize(rng.draw_below(b.size() + 8)); break;
        case 1: b.insert(b.begin() + static_cast<std::ptrdiff_t>(rng.draw_below(b.size() + 1)), 0xff); break;
        default:
          if (!b.empty()) b[rng.draw_below(b.size())] = static_cast<std::uint8_t>(rng.next());
      }
    }
    if (b.size() > 8 && b[0] == 0x89 && rng.draw_below(2) == 0) fix_checksums(b);
    const int channels = rng.draw_below(2) == 0 ? 1 : 3;
    // Mostly with a wanted size, as for a data set. Without it a damaged header may cause a large
    // decode.
    const bool stated = rng.draw_below(8) != 0;
    const auto r = decode_image(b, channels, stated ? wanted_size{12, 20} : wanted_size{});
    if (const auto* m = r ? &*r : nullptr) {
      ++sound;
      ASSERT_EQ(m->channels, channels);
      ASSERT_EQ(static_cast<std::int64_t>(m->bytes.size()), m->height * m->width * channels) << "input " << i;
    } else {
      ASSERT_FALSE(r.error().text.empty());
    }
  }
  EXPECT_GT(sound, inputs / 100);
  EXPECT_LT(sound, inputs);
}

TEST(images_files, are_refused_when_they_are_a_fifo) {
  const test::temp_dir dir;
  ASSERT_EQ(::mkfifo(dir.file("a.png").c_str(), 0600), 0);
  EXPECT_EQ(test::error_text(size_of_image_file(dir.file("a.png"))), "not a regular file") << "not a wait for a writer";
  EXPECT_EQ(test::error_text(read_image(dir.file("a.png"), 3, {})), "not a regular file");
}

TEST(images_resize, keeps_constant_images_and_weighs_neighbouring_pixels) {
  image flat{5, 9, 3, bytes(135, 77)};
  for (auto v : resized(flat, 13, 4).bytes) EXPECT_EQ(v, 77);
  // Twice as wide: a quarter and three quarters between the centres, the edge pixels repeated.
  EXPECT_THAT(resized(image{1, 2, 1, {0, 100}}, 1, 4).bytes, ElementsAre(0, 25, 75, 100));
  // Half as wide: the triangle of radius 2 over a step; weights 1/8 3/8 3/8 1/8, cut and normalised
  // at the edges (3/7 3/7 1/7).
  EXPECT_THAT(resized(image{1, 4, 1, {0, 0, 70, 70}}, 1, 2).bytes, ElementsAre(10, 60));
  EXPECT_THAT(resized(image{4, 1, 1, {0, 0, 70, 70}}, 2, 1).bytes, ElementsAre(10, 60));
}

}  // namespace
}  // namespace troupe::images
