// Activations and gradients in fewer bytes, for edges between nodes (plan/wire_format.hpp). In
// tasks: these touch memory.
//
//   bf16   the upper half of an f32, rounded to the nearest, ties to even: off by at most 2^-8 of the value (2^-9 of the next power of two)
//   int8   q = round(127 x / m) for each example, m its largest magnitude; off by at most m / 254. An example's numbers do not depend on who
//          travels with it. An example with a value that is not finite arrives as NaN: nothing is hidden.
#pragma once

#include "ops/tensor.hpp"
#include "runtime/plan/wire_format.hpp"

namespace troupe {

class device;

tensor declare_for_wire(const shape& s, dtype t, wire_format f);
// Of floating values. As it is, or bf16 of bf16: itself.
tensor to_wire(device& d, const tensor& from, wire_format f);
// `s` and `t`: of the tensor that was sent.
tensor from_wire(device& d, const tensor& from, wire_format f, const shape& s, dtype t);

}  // namespace troupe
