#include "ops/cpu/conv.hpp"

#include <algorithm>
#include <cassert>
#include <type_traits>

#include "ops/cpu/conv_stage.hpp"
#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

namespace {

conv_algorithm chosen(const conv_geometry& g, conv_pass pass, cpu_level level) {
  const conv_algorithm named = algorithm_of(g, pass);
  return named == conv_algorithm::automatic ? automatic_choice(g, pass, level) : named;
}

}  // namespace

template <class T>
conv_passes<T> passes_of(const conv_geometry& g, conv_pass pass, cpu_level level) {
  const conv_algorithm a = chosen(g, pass, level);
  assert(why_not(a, g).empty());
  if (a == conv_algorithm::lowering2) return conv_lowering2<T>();
  if (a == conv_algorithm::lowering3) return conv_lowering3<T>();
  if constexpr (std::is_same_v<T, float>) {
    if (a == conv_algorithm::direct) return over_images(g) ? conv_batch() : conv_direct();
    if (a == conv_algorithm::winograd) return conv_winograd();
    if (a == conv_algorithm::winograd4) return conv_winograd4();
    if (a == conv_algorithm::onednn) return conv_onednn();
    if (a == conv_algorithm::bf16x3) return conv_bf16x3();
  }
  return conv_lowering1<T>();
}

bool in_vectors(const conv_geometry& g, std::initializer_list<conv_pass> passes, cpu_level level) {
  for (const auto pass : passes)
    if (chosen(g, pass, level) != conv_algorithm::direct) return false;
  return over_images(g);
}

i64 images_at_once(const conv_geometry& g, cpu_level level) {
  constexpr i64 cached = i64{1} << 17, pixels_enough = 4096;  // elements
  using enum conv_pass;
  for (const auto pass : {forward, backward_data, backward_weights})
    if (const auto a = chosen(g, pass, level);
        a == conv_algorithm::winograd || a == conv_algorithm::winograd4 || a == conv_algorithm::onednn)
      return g.batch;  // these pack weights per call, so a block needs all images
  const i64 image = std::max<i64>(1, g.channels * g.height * g.width + g.outputs * g.pixels());
  const i64 images = std::max({i64{1}, cached / image, ceil_div(pixels_enough, std::max<i64>(1, g.pixels()))});
  constexpr i64 lanes = 16;  // of vectors of images
  return std::min(g.batch, images <= lanes / 2 ? (over_images(g) ? lanes : images) : ceil_div(images, lanes) * lanes);
}

template conv_passes<float> passes_of(const conv_geometry&, conv_pass, cpu_level);
template conv_passes<double> passes_of(const conv_geometry&, conv_pass, cpu_level);

}  // namespace troupe::cpu
