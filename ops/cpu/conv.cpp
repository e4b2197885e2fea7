#include "ops/cpu/conv.hpp"

#include <cassert>
#include <type_traits>

#include "ops/cpu/onednn.hpp"

namespace troupe::cpu {

template <class T>
conv_passes<T> passes_of(const conv_geometry& g, conv_pass pass, bool wide) {
  const conv_algorithm named = algorithm_of(g, pass);
  const conv_algorithm a = named == conv_algorithm::automatic ? automatic_choice(g, pass, wide) : named;
  assert(why_not(a, g).empty());
  if (a == conv_algorithm::lowering2) return conv_lowering2<T>();
  if (a == conv_algorithm::lowering3) return conv_lowering3<T>();
  if constexpr (std::is_same_v<T, float>) {
    if (a == conv_algorithm::direct) return over_images(g) ? conv_batch() : conv_direct();
    if (a == conv_algorithm::winograd) return conv_winograd();
    if (a == conv_algorithm::onednn) return conv_onednn();
  }
  return conv_lowering1<T>();
}

template conv_passes<float> passes_of(const conv_geometry&, conv_pass, bool);
template conv_passes<double> passes_of(const conv_geometry&, conv_pass, bool);

}  // namespace troupe::cpu
