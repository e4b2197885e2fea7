// Helpers that most layers need: shape errors, the assign-or-accumulate rule, and common entries of
// supported().
#pragma once

#include <string>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "ops/layer.hpp"
#include "ops/option_specs.hpp"
#include "ops/registry.hpp"

namespace troupe {

std::string to_string(const shapes& s);  // "64x10, 64"

// Throws shape_error "expects <what>, got <shapes>" unless `ok`.
void want(bool ok, const std::string& what, const shapes& got);

// Returns true if every label has a row of scores: labels [N] with scores [N, ...], labels [N, T]
// with scores [N, T, ...], and so on.
bool scores_of_labels(const shape& scores, const shape& labels);

// Computes the gradient of a parameter; f(target) must assign. Does nothing if `target` is empty.
// With `accumulate`, the gradient is computed separately and then added, so that the result is
// exactly the old value plus the new one.
template <class F>
void assign_or_add(device& d, tensor& target, bool accumulate, F f) {
  if (!target) return;
  target.back(d);
  if (!accumulate) return f(target);
  tensor fresh = tensor::allocate(d, target.dims(), target.type());
  f(fresh);
  d.apply(binary::add, target, fresh, target);
}

// The same for gradients that one call computes together: gradient_for() returns the tensor to
// compute the gradient of `target` in, and keep_gradient() then adds it. Empty if `target` is
// empty.
inline tensor gradient_for(device& d, tensor& target, bool accumulate) {
  if (!target) return {};
  return accumulate ? tensor::allocate(d, target.dims(), target.type()) : (target.back(d), target);
}
inline void keep_gradient(device& d, tensor& target, const tensor& made, bool accumulate) {
  if (target && accumulate) d.apply(binary::add, target, made, target);
}

// Backs an output and returns it, ready to be written.
inline tensor& backed(device& d, tensor& t) {
  t.back(d);
  return t;
}
inline bool wanted(const tensors& ts, std::size_t i) { return i < ts.size() && ts[i]; }

// For supported(): one signature per entry of `kinds`, with that distribution for every input and
// output and broadcast parameters.
signatures alike(std::initializer_list<distribution> kinds, std::size_t inputs, std::size_t params = 0, std::size_t outputs = 1);

// Cases for check_layer.
inline layer_case example(std::string name, options given, shapes in) {
  return {std::move(name), std::move(given), std::move(in), false, 0};
}
inline layer_case labelled(std::string name, options given, shapes in, std::int64_t classes) {
  return {std::move(name), std::move(given), std::move(in), true, classes};
}

}  // namespace troupe
