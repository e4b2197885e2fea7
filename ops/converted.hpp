// A tensor in another element type (device::copy says which there are).
#pragma once

#include "ops/device.hpp"

namespace troupe {

// `t` itself where it has the type, else a copy.
inline tensor converted_to(device& d, const tensor& t, dtype type) {
  if (t.type() == type) return t;
  tensor made = tensor::allocate(d, t.dims(), type);
  d.copy(t, made);
  return made;
}

}  // namespace troupe
