#include "ops/cpu/conv_rule.hpp"

#include <algorithm>

namespace troupe {

namespace {

std::int64_t empty_lanes(std::int64_t features) { return (features + 15) / 16 * 16 - features; }

// The form of Winograd's algorithm with the fewest products, counting tiles that extend beyond the
// image. automatic: none supports the geometry.
conv_algorithm transformed(const conv_geometry& g) {
  using enum conv_algorithm;
  const auto products = [&](std::int64_t tile, std::int64_t patch) {
    return ((g.out_h() + tile - 1) / tile) * ((g.out_w() + tile - 1) / tile) * patch * patch;
  };
  if (why_not(winograd4, g).empty() && products(4, 6) <= products(2, 4)) return winograd4;
  return why_not(winograd, g).empty() ? winograd : automatic;
}

// Tiles hold 16 channels and 16 outputs; up to a quarter may be empty. With strides the tiles are
// shifted more often, so bf16x3 measured faster only for some passes.
bool by_matrix_unit(const conv_geometry& g, conv_pass pass) {
  using enum conv_algorithm;
  const auto in = g.group_channels(), out = g.group_outputs();
  if (4 * empty_lanes(in) > in || 4 * empty_lanes(out) > out || !why_not(bf16x3, g).empty()) return false;
  if (pass == conv_pass::backward_weights) return g.unit_stride() || in >= 32;
  return g.unit_stride() || (pass == conv_pass::forward && in >= 32);
}

}  // namespace

bool over_images(const conv_geometry& g) {
  const auto out = g.group_outputs();
  const auto images = g.of_batch > 0 ? g.of_batch : g.batch;
  const bool images_fill = 8 * empty_lanes(images) <= images, features_fill = 16 * empty_lanes(out) <= out;
  // A vector of images holds 16 images at a time. Larger blocks do not fit into the cache.
  const auto block = 16 * (g.group_channels() * (g.height + 2 * g.pad_h) * (g.width + 2 * g.pad_w) + out * g.pixels());
  return images_fill && !features_fill && block <= (1 << 19);
}

conv_algorithm automatic_choice(const conv_geometry& g, conv_pass pass, cpu_level level) {
  using enum conv_algorithm;
  if (level == cpu_level::basic) return lowering1;
  const auto in = g.group_channels(), out = g.group_outputs();
  // Winograd's transforms pay off only if each element is used for many features. More features are
  // needed where plain sums are faster: there for small tiles, whose patches overlap more. For
  // gradients of weights both factors are transformed.
  const conv_algorithm fewest = transformed(g);
  const auto features = fewest == automatic ? 0 : std::min(in, out);
  if (level == cpu_level::tiles && features >= (fewest == winograd4 ? 32 : 48) && pass != conv_pass::backward_weights)
    return fewest;
  if (level == cpu_level::tiles && by_matrix_unit(g, pass)) return bf16x3;
  if (features >= 16) return fewest;
  if (over_images(g)) return direct;
  if (pass == conv_pass::backward_data && !g.unit_stride()) return lowering1;
  // Feature vectors that are mostly empty, and short rows, are faster with lowering.
  const auto lanes = pass == conv_pass::backward_data ? in : out;
  const auto row = pass == conv_pass::backward_data ? g.width : g.out_w();
  return empty_lanes(lanes) == 0 && row >= 6 ? direct : lowering1;
}

}  // namespace troupe
