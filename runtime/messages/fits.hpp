// Is what a peer has sent what is expected of it? Roles that put tensors of others into jobs ask
// first: a job does not look.
#pragma once

#include <algorithm>

#include "ops/tensor.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

inline bool fits(const tensor& t, const shape& dims, dtype type) { return t && t.type() == type && t.dims() == dims; }
// So many elements, in whatever shape: blocks of parameters.
inline bool holds(const tensor& t, std::int64_t count, dtype type) { return t && t.type() == type && t.count() == count; }
inline bool all_hold(const tensors& all, std::int64_t count, dtype type) {
  return std::all_of(all.begin(), all.end(), [&](const tensor& t) { return holds(t, count, type); });
}

// Have its tensors values? For hosts whose jobs run; without maths none has. Of packets that nobody
// computes (flag_void) they need none.
bool has_values(const envelope& e);

}  // namespace troupe
