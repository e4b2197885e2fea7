// The options of `images`, checked for consistency.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ops/options.hpp"
#include "runtime/data/channel_order.hpp"

namespace troupe::images {

struct folder_choice {
  std::string path;
  std::string key;  // the option to name in errors
};

struct settings {
  folder_choice train, test;  // test.path empty: test images are taken from `train`
  double test_fraction = 0;
  int channels = 3;
  channel_order order = channel_order::rgb;  // of three channels; also of `scale` and `mean`
  std::int64_t height = 0, width = 0;        // 0: those of the first training image
  bool resize = false;
  bool keep = true;                       // decoded in memory; otherwise files are decoded on each read
  std::int64_t max_bytes = 0;             // of decoded images
  std::array<double, 3> scale{}, mean{};  // value = byte * scale[c] - mean[c]
};

option_specs option_list();
settings read_settings(const options& o);  // throws option_error

}  // namespace troupe::images
