// Checks a layer's declarations against its behaviour: shapes, written elements, unmodified
// tensors.
#include <algorithm>
#include <cmath>

#include "ops/check_layer_checker.hpp"

namespace troupe {

void layer_checker::check_written(const char* what, const tensors& got, const shapes& declared) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!got[i]) continue;
    if (!(got[i].dims() == declared[i]))
      find(numbered(what, i) + " is " + got[i].dims().to_string() + ", declared " + declared[i].to_string());
    else if (!got[i].backed())
      find(numbered(what, i) + " has no memory");
    else if (any_nan(home(got[i])))
      find(numbered(what, i) +
           " has elements that were not written, or NaN (does backward() use a tensor that backward_needs() does not request?)");
  }
}

// holds() matches the case's inputs, and ids_below() admits every label.
void layer_checker::check_inputs() {
  for (std::size_t i = 0; i < case_.in.size(); ++i) {
    const bool label = case_.integer_labels && i + 1 == case_.in.size();
    const auto says = layer_.holds(i, case_.in);
    if (says == (label ? holding::values : holding::ids))
      find(numbered("input", i) + " is " + (label ? "labels" : "values") + " in this case, but holds() returns " +
           (label ? "values" : "ids"));
    const auto below = label && says != holding::values ? layer_.ids_below(i, case_.in) : 0;
    if (below > 0 && below < case_.classes)
      find(numbered("input", i) + " has " + std::to_string(case_.classes) + " classes in this case, but ids_below() returns " +
           std::to_string(below));
  }
}

void layer_checker::check_contract(const pass_values& v) {
  if (layer_.supported().empty()) find("supported() is empty");
  for (const auto& s : out_shapes_)
    if (s.count() <= 0) find("infer() yields an empty output " + s.to_string());
  const tensors in = copied(v.in), params = copied(v.params), grad_out = copied(v.grad_out);
  auto p = make_plan(phase::train, dtype::f64);
  saved s;
  const tensors out = forward(v, *p, s, phase::train);
  check_written("output", out, out_shapes_);
  check_saved(v, out, s);
  if (findings_.empty() && differentiable()) {
    const tensors kept = copied(out);
    const pass_results r = backward(v, *p, s);
    check_written("gradient of input", r.grad_in, case_.in);
    shapes dims;
    for (const auto& spec : specs_) dims.push_back(spec.dims);
    check_written("gradient of parameter", r.grad_params, dims);
    if (!same_bits(kept, out)) find("backward() modifies an output of forward()");
  }
  if (!same_bits(in, v.in)) find("an input is modified");
  if (!same_bits(params, v.params)) find("a parameter is modified");
  if (!same_bits(grad_out, v.grad_out)) find("an incoming gradient is modified");
}

void layer_checker::check_saved(const pass_values& v, const tensors& out, const saved& s) {
  std::int64_t bytes = 0;
  for (const auto& x : s.extra) {
    const auto shared = [&](const tensor& y) { return x.same_storage(y); };
    if (!x.backed() || std::any_of(v.in.begin(), v.in.end(), shared) || std::any_of(out.begin(), out.end(), shared)) continue;
    bytes += x.count() * static_cast<std::int64_t>(floating(x) ? size_of(dtype::f32) : size_of(x.type()));
  }
  if (bytes > needs_.saved_bytes)
    find("forward() saves " + std::to_string(bytes) + " bytes, backward_needs() declares " + std::to_string(needs_.saved_bytes));
}

void layer_checker::check_mean_weight(const pass_values& v) {
  if (!layer_.is_loss() && !layer_.is_metric()) return;
  context c = make_context(phase::test);
  const auto weight = layer_.mean_weight(c, v.in);
  if (!weight) return;
  if (weight.count() != 1 || (weight.type() != dtype::f32 && weight.type() != dtype::f64))
    return find("mean_weight() returns a tensor of shape " + weight.dims().to_string() + ", not a scalar of type f32 or f64");
  const double n = c.dev.scalar(weight);
  if (!std::isfinite(n) || n < 0) find("mean_weight() returns " + real_text(n) + ", which is not a finite number of at least 0");
}

// In training, one statistic per buffer, and the same outputs whether or not statistics are
// requested.
void layer_checker::check_statistics(const pass_values& v) {
  shapes wanted_dims;
  for (const auto& p : specs_)
    if (!p.trainable) wanted_dims.push_back(p.dims);
  tensors stats, out = poisoned_outputs(v.type);
  context c = make_context(phase::train);
  c.stats_out = &stats;
  saved s, t;
  layer_.forward(c, *make_plan(phase::train, dtype::f64), v.in, v.params, out, s);
  if (stats.size() != wanted_dims.size())
    return find("forward() stores " + std::to_string(stats.size()) + " statistics, the layer has " +
                std::to_string(wanted_dims.size()) + " parameters that are not trainable");
  check_written("statistic", stats, wanted_dims);
  if (!same_bits(out, forward(v, *make_plan(phase::train, dtype::f64), t, phase::train)))
    find("an output changes when statistics are requested");
}

void layer_checker::check_test_phase(const pass_values& v) {
  saved s;
  check_written("test phase: output", forward(v, *make_plan(phase::test, dtype::f64), s, phase::test), out_shapes_);
}

}  // namespace troupe
