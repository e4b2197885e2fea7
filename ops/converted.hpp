// Conversion of a tensor to another element type. device::copy lists the supported types.
#pragma once

#include "ops/device.hpp"

namespace troupe {

// Returns `t` itself if it has the type, otherwise a converted copy.
inline tensor converted_to(device& d, const tensor& t, dtype type) {
  if (t.type() == type) return t;
  tensor made = tensor::allocate(d, t.dims(), type);
  d.copy(t, made);
  return made;
}

}  // namespace troupe
