// Gradients against central differences, and when only some of them are wanted or they are added to others.
#include <algorithm>
#include <cmath>

#include "ops/check_layer_checker.hpp"

namespace troupe {

void layer_checker::check_gradients(const pass_values& v) {
  auto p = make_plan(phase::train, dtype::f64);
  const pass_results r = both(v, *p);
  for (std::size_t i = 0; i < v.in.size(); ++i)
    if (wants_gradient(i)) check_gradient(numbered("input", i), v, &pass_values::in, i, r.grad_in[i]);
  for (std::size_t i = 0; i < v.params.size(); ++i)
    if (specs_[i].trainable) check_gradient("parameter '" + specs_[i].name + "'", v, &pass_values::params, i, r.grad_params[i]);
}

void layer_checker::check_gradient(const std::string& what, const pass_values& v, tensors pass_values::*list, std::size_t i,
                                   const tensor& gradient) {
  const tensor found = home(gradient);
  const std::int64_t count = gradient.count(), stride = std::max<std::int64_t>(1, count / how_.samples);
  for (std::int64_t j = 0; j < count; j += stride) {
    const std::string error = compare(v, list, i, j, value(found, j));
    if (error.empty()) continue;
    find("gradient of " + what + ", element " + std::to_string(j) + ": " + error);
    return;  // one element tells enough
  }
}

// Central differences with the given step and a smaller one (a kink may lie within the larger step, but not within both unless
// the point sits on it). On a kink, anything between the two one-sided derivatives is a right answer.
std::string layer_checker::compare(const pass_values& v, tensors pass_values::*list, std::size_t i, std::int64_t j,
                                   double analytic) {
  const auto shifted = [&](double by) {
    pass_values w = v;
    tensor& t = (w.*list)[i];
    t = copied(t);
    tensor element = t.slice(j, {1}), more = tensor::allocate(dev_, {1}, dtype::f64);
    dev_.fill(by, more);
    dev_.axpy(1.0, more, element);
    return objective(w);
  };
  const auto close = [&](double a, double b) {
    return std::fabs(a - b) <= how_.tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
  };
  const double x = value(home((v.*list)[i]), j), here = objective(v);
  double left = 0, right = 0;
  for (const double factor : {1.0, 0.01}) {
    const double h = how_.step * factor * std::max(1.0, std::fabs(x));
    right = (shifted(h) - here) / h;
    left = (here - shifted(-h)) / h;
    if (close((left + right) / 2, analytic)) return "";
  }
  const bool kink = !close(left, right) && std::fabs(right - left) > 100 * how_.tolerance;
  const double low = std::min(left, right) - how_.tolerance, high = std::max(left, right) + how_.tolerance;
  if (kink && analytic >= low && analytic <= high) return "";
  return "backward() says " + std::to_string(analytic) + ", central differences " + std::to_string((left + right) / 2) +
         (kink ? " (at a kink: " + std::to_string(left) + " and " + std::to_string(right) + ")" : "");
}

void layer_checker::check_skipping(const pass_values& v) {
  auto p = make_plan(phase::train, dtype::f64);
  saved s;
  forward(v, *p, s, phase::train);
  const pass_results all = backward(v, *p, s);
  if (!same_bits(all.grad_params, backward(v, *p, s, 0, false, true).grad_params))
    find("gradients of parameters change when nobody wants those of inputs");
  if (!same_bits(all.grad_in, backward(v, *p, s, 0, true, false).grad_in))
    find("gradients of inputs change when nobody wants those of parameters");
  const pass_results none = backward(v, *p, s, 0, false, false);
  const auto unwanted = [](const tensor& t) { return bool(t); };
  if (std::any_of(none.grad_in.begin(), none.grad_in.end(), unwanted) ||
      std::any_of(none.grad_params.begin(), none.grad_params.end(), unwanted))
    find("a gradient that nobody wants is made");
}

void layer_checker::check_accumulate(const pass_values& v) {
  for (const dtype t : types()) {
    const pass_values w = converted(v, t);
    auto p = make_plan(phase::train, t);
    saved s;
    forward(w, *p, s, phase::train);
    const pass_results fresh = backward(w, *p, s);
    tensors before, sum;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      before.push_back(converted({random(specs_[i].dims, 900 + static_cast<std::uint32_t>(i))}, wide_of(t))[0]);
      sum.push_back(specs_[i].trainable ? copied(before[i]) : tensor());
      if (sum[i]) dev_.apply(binary::add, sum[i], fresh.grad_params[i], sum[i]);
    }
    const pass_results added = backward(w, *p, s, 0, true, true, &before);
    if (!same_bits(sum, added.grad_params))
      find(std::string("with accumulate, gradients of parameters are not old plus new (") + name_of(t) + ")");
    if (!same_bits(fresh.grad_in, added.grad_in)) find("accumulate changes gradients of inputs");
  }
}

}  // namespace troupe
