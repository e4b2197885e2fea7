#include "ops/cpu/conv.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "ops/cpu/conv_stage.hpp"

namespace troupe::cpu {

template <class T>
conv_passes<T> passes_of(const conv_geometry& g, conv_pass pass, bool wide) {
  const conv_algorithm a = g.algorithm == conv_algorithm::automatic ? automatic_choice(g, pass, wide) : g.algorithm;
  assert(why_not(a, g).empty());
  if (a == conv_algorithm::lowering2) return conv_lowering2<T>();
  if (a == conv_algorithm::lowering3) return conv_lowering3<T>();
  if constexpr (std::is_same_v<T, float>) {
    if (a == conv_algorithm::direct) return over_images(g) ? conv_batch() : conv_direct();
    if (a == conv_algorithm::winograd) return conv_winograd();
  }
  return conv_lowering1<T>();
}

bool all_in_vectors(const conv_geometry& g, bool wide) {
  using enum conv_pass;
  for (const auto pass : {forward, backward_data, backward_weights})
    if ((g.algorithm == conv_algorithm::automatic ? automatic_choice(g, pass, wide) : g.algorithm) != conv_algorithm::direct)
      return false;
  return over_images(g);
}

i64 images_at_once(const conv_geometry& g, bool wide) {
  constexpr i64 cached = i64{1} << 17, pixels_enough = 4096;  // elements
  using enum conv_pass;
  for (const auto pass : {forward, backward_data, backward_weights})
    if ((g.algorithm == conv_algorithm::automatic ? automatic_choice(g, pass, wide) : g.algorithm) == conv_algorithm::winograd)
      return g.batch;  // its blocks are as large as its transformed weights want
  const i64 image = std::max<i64>(1, g.channels * g.height * g.width + g.outputs * g.pixels());
  const i64 images = std::max({i64{1}, cached / image, ceil_div(pixels_enough, std::max<i64>(1, g.pixels()))});
  constexpr i64 lanes = 16;  // of vectors of images
  return std::min(g.batch, images <= lanes / 2 ? (over_images(g) ? lanes : images) : ceil_div(images, lanes) * lanes);
}

template conv_passes<float> passes_of(const conv_geometry&, conv_pass, bool);
template conv_passes<double> passes_of(const conv_geometry&, conv_pass, bool);

}  // namespace troupe::cpu
