// Checks of received tensors. A role checks shape and type of a peer's tensor before it passes the
// tensor to a task, because tasks do not check their inputs.
#pragma once

#include <algorithm>

#include "ops/tensor.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

inline bool fits(const tensor& t, const shape& dims, dtype type) { return t && t.type() == type && t.dims() == dims; }
// Returns true if the tensor has `count` elements in any shape; for blocks of parameters.
inline bool holds(const tensor& t, std::int64_t count, dtype type) { return t && t.type() == type && t.count() == count; }
inline bool all_hold(const tensors& all, std::int64_t count, dtype type) {
  return std::all_of(all.begin(), all.end(), [&](const tensor& t) { return holds(t, count, type); });
}

// Returns true if all tensors of the message have values. The tensors of a void packet (flag_void)
// need none. Not for simulations without maths, where no tensor has values.
bool has_values(const envelope& e);

}  // namespace troupe
