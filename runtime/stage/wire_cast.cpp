#include "runtime/stage/wire_cast.hpp"

#include "ops/converted.hpp"
#include "ops/device.hpp"

namespace troupe {

tensor declare_for_wire(const shape& s, dtype t, wire_format f) { return tensor::declare(wire_dims(f, s), wire_dtype(f, t)); }

tensor to_wire(device& d, const tensor& from, wire_format f) {
  if (f == wire_format::as_is || !from) return from;
  if (from.type() == wire_dtype(f, from.type())) return from;  // bf16 of bf16
  if (from.type() == dtype::bf16) return to_wire(d, converted_to(d, from, dtype::f32), f);
  auto to = declare_for_wire(from.dims(), from.type(), f);
  to.back(d);
  f == wire_format::bf16 ? d.copy(from, to) : d.to_int8(from, to);
  return to;
}

tensor from_wire(device& d, const tensor& from, wire_format f, const shape& s, dtype t) {
  if (f == wire_format::as_is || !from) return from;
  if (f == wire_format::bf16 && t == dtype::bf16) return from.reshaped(s);
  auto to = tensor::allocate(d, s, t);
  if (t == dtype::bf16) {
    d.copy(from_wire(d, from, f, s, dtype::f32), to);
    return to;
  }
  f == wire_format::bf16 ? d.copy(from, to) : d.from_int8(from, to);
  return to;
}

}  // namespace troupe
