// Lossy compression of activations and gradients, for edges between nodes (plan/wire_format.hpp).
// Called in tasks, except declare_for_wire: the others access tensor memory.
//
//   bf16   The upper half of an f32, rounded to nearest, ties to even. Error: at most 2^-8 of the
//          value (2^-9 of the next power of two).
//   int8   q = round(127 x / m) per example, m its largest magnitude. Error: at most m / 254. The
//          result for an example does not depend on the other examples. An example with a value
//          that is not finite arrives as NaN.
#pragma once

#include "ops/tensor.hpp"
#include "runtime/plan/wire_format.hpp"

namespace troupe {

class device;

tensor declare_for_wire(const shape& s, dtype t, wire_format f);
// `from` has floating-point values. Returns `from` itself for as_is, and for bf16 of bf16.
tensor to_wire(device& d, const tensor& from, wire_format f);
// `s`, `t`: shape and type of the tensor before to_wire.
tensor from_wire(device& d, const tensor& from, wire_format f, const shape& s, dtype t);

}  // namespace troupe
