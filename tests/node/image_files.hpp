// Image files for tests, written by the libraries that read them: in memory, and as folders of
// classes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::image_test {

using bytes = std::vector<std::uint8_t>;

struct png_form {
  int colour = PNG_COLOR_TYPE_RGB, depth = 8;
  bool interlaced = false;
  std::vector<png_color> palette{};
  bytes transparent{};  // alpha of the palette's colours
};

// `entries`: pixel rows as in PNG: height rows of the form's bytes, 16 bits high byte first.
bytes png_of(std::uint32_t width, std::uint32_t height, const bytes& entries, const png_form& form = {});

struct jpeg_form {
  J_COLOR_SPACE in = JCS_RGB, stored = JCS_YCbCr;
  int channels = 3;
  int quality = 95;
  bool progressive = false, half_chroma = true;
};

bytes jpeg_of(std::uint32_t width, std::uint32_t height, const bytes& entries, const jpeg_form& form = {});

// Smooth colours that differ by `number`: JPEG preserves them within a few steps.
bytes picture(std::uint32_t width, std::uint32_t height, int channels, unsigned number);

// Writes a data set of small valid files under `folder`: train/CLASS and test/CLASS, PNG and JPEG
// alternating.
void write_set(const std::string& folder, const std::vector<std::string>& classes, unsigned train, unsigned test,
               std::uint32_t side);

// Writes a file and the folders above it.
void put(const std::string& path, const bytes& b);

}  // namespace troupe::image_test
