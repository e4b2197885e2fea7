// Small things that most layers need: errors with shapes, the assign-or-accumulate rule, and the
// usual rows of supported().
#pragma once

#include <string>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "ops/layer.hpp"
#include "ops/option_specs.hpp"
#include "ops/registry.hpp"

namespace troupe {

std::string to_string(const shapes& s);  // "64x10, 64"

// Throws shape_error "wants <what>, got <shapes>" unless `ok`.
void want(bool ok, const std::string& what, const shapes& got);

// Has every label its scores? labels [N] with scores [N, ...], or labels [N, T] with scores [N, T,
// ...], and so on.
bool scores_of_labels(const shape& scores, const shape& labels);

// The gradient of a parameter: f(target) must assign. Skipped when nobody wants it; with
// `accumulate` it is computed apart and added, so that the result is exactly the old value plus the
// new.
template <class F>
void assign_or_add(device& d, tensor& target, bool accumulate, F f) {
  if (!target) return;
  target.back(d);
  if (!accumulate) return f(target);
  tensor fresh = tensor::allocate(d, target.dims(), target.type());
  f(fresh);
  d.apply(binary::add, target, fresh, target);
}

// The same for gradients that are made together: where to make the one of `target`; keep_gradient()
// then adds it. Empty when nobody wants it.
inline tensor gradient_for(device& d, tensor& target, bool accumulate) {
  if (!target) return {};
  return accumulate ? tensor::allocate(d, target.dims(), target.type()) : (target.back(d), target);
}
inline void keep_gradient(device& d, tensor& target, const tensor& made, bool accumulate) {
  if (target && accumulate) d.apply(binary::add, target, made, target);
}

// Memory for an output; the tensor is then ready to be written.
inline tensor& backed(device& d, tensor& t) {
  t.back(d);
  return t;
}
inline bool wanted(const tensors& ts, std::size_t i) { return i < ts.size() && ts[i]; }

// supported(): every input and output lies alike, for each of `kinds`; parameters are whole
// everywhere.
signatures alike(std::initializer_list<distribution> kinds, std::size_t inputs, std::size_t params = 0, std::size_t outputs = 1);

// A case for check_layer.
inline layer_case example(std::string name, options given, shapes in) {
  return {std::move(name), std::move(given), std::move(in), false, 0};
}
inline layer_case labelled(std::string name, options given, shapes in, std::int64_t classes) {
  return {std::move(name), std::move(given), std::move(in), true, classes};
}

}  // namespace troupe
