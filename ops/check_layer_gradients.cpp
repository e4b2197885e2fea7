// Checks of gradients: against central differences, with only some of them requested, and
// accumulated.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/check_layer_checker.hpp"

namespace troupe {

// One draw: a packet of values, its plan, the outputs of forward(), and the incoming gradients as
// one list of elements.
struct layer_checker::drawn {
  pass_values v;
  std::uint32_t packet;
  std::unique_ptr<plan> p;
  std::vector<double> out, weights;
};

// Draws alternate between two packets and between normal and wide values. A seed gives two draws.
void layer_checker::check_gradients() {
  constexpr int most = 32;
  while (seen_.draws < 2 * how_.seeds || (seen_.draws < most && seen_.compared < how_.samples)) {
    const int n = seen_.draws++;
    seed_ = how_.seed + static_cast<std::uint64_t>(n / 2);
    drawn d{
        .v = {}, .packet = static_cast<std::uint32_t>(n % 2), .p = make_plan(phase::train, dtype::f64), .out = {}, .weights = {}};
    d.v = random_values(d.packet, (n + n / 2) % 2 == 0 ? spread::normal : spread::wide);
    d.out = outputs_of(d.v, *d.p, d.packet);
    for (const tensor& w : home(d.v.grad_out))
      for (std::int64_t j = 0; j < w.count(); ++j) d.weights.push_back(value(w, j));
    note_range(d.v.in);
    check_draw(d);
  }
  seed_ = how_.seed;
}

void layer_checker::check_draw(const drawn& d) {
  const pass_results r = both(d.v, *d.p, d.packet);
  for (std::size_t i = 0; i < d.v.in.size(); ++i)
    if (wants_gradient(i)) check_gradient(numbered("input", i), d, &pass_values::in, i, r.grad_in[i]);
  for (std::size_t i = 0; i < d.v.params.size(); ++i)
    if (specs_[i].trainable) check_gradient("parameter '" + specs_[i].name + "'", d, &pass_values::params, i, r.grad_params[i]);
}

void layer_checker::note_range(const tensors& in) {
  for (const tensor& t : home(in))
    for (std::int64_t j = 0; floating(t) && j < t.count(); ++j) {
      seen_.low = std::min(seen_.low, value(t, j));
      seen_.high = std::max(seen_.high, value(t, j));
    }
}

namespace {

// Selects `samples` of `count` elements: the first, the last, and others spread over the tensor,
// which depend on `start`.
std::set<std::int64_t> elements_to_try(std::int64_t count, std::int64_t samples, std::int64_t start) {
  if (count == 0) return {};
  std::set<std::int64_t> chosen{0, count - 1};
  auto stride = static_cast<std::int64_t>(0.618 * static_cast<double>(count)) + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  for (std::int64_t at = start % count; static_cast<std::int64_t>(chosen.size()) < std::min(samples, count);
       at = (at + stride) % count)
    chosen.insert(at);
  return chosen;
}

}  // namespace

void layer_checker::check_gradient(const std::string& what, const drawn& d, tensors pass_values::*list, std::size_t i,
                                   const tensor& gradient) {
  if (wrong_.count(what) > 0) return;
  const tensor found = home(gradient);
  seen_.elements += gradient.count();
  for (const std::int64_t j : elements_to_try(gradient.count(), how_.samples, 7919 * seen_.draws)) {
    ++seen_.compared;
    const std::string error = compare(d, list, i, j, value(found, j));
    if (error.empty()) continue;
    find("gradient of " + what + ", element " + std::to_string(j) + " of packet " + std::to_string(d.packet) + ": " + error);
    wrong_.insert(what);  // report one element per tensor
    return;
  }
}

// Compares one element with central differences, for the given step and a smaller one. A kink may
// lie within the larger step, but lies within both only if the point is at the kink; then any value
// between the two one-sided derivatives is accepted. Differences are computed per output element
// and then summed: an unchanged element adds no rounding error, and `rounding` bounds that of the
// others.
std::string layer_checker::compare(const drawn& d, tensors pass_values::*list, std::size_t i, std::int64_t j, double analytic) {
  double rounding = 0;
  const auto shifted = [&](double by) {
    pass_values w = d.v;
    tensor& t = (w.*list)[i];
    t = copied(t);
    tensor element = t.slice(j, {1}), more = tensor::allocate(dev_, {1}, dtype::f64);
    dev_.fill(by, more);
    dev_.axpy(1.0, more, element);
    double sum = 0;
    rounding = 0;
    const auto out = outputs_of(w, *d.p, d.packet);
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (out[k] == d.out[k]) continue;
      sum += (out[k] - d.out[k]) * d.weights[k];
      rounding += 4 * std::numeric_limits<double>::epsilon() * std::fabs(out[k] * d.weights[k] / by);
    }
    return sum / by;
  };
  const auto close = [&](double a, double b) {
    return std::fabs(a - b) <= how_.tolerance * std::max({1.0, std::fabs(a), std::fabs(b)}) + rounding;
  };
  const double x = value(home((d.v.*list)[i]), j);
  double left = 0, right = 0;
  for (const double factor : {1.0, 0.01}) {
    const double h = how_.step * factor * std::max(1.0, std::fabs(x));
    right = shifted(h);
    left = shifted(-h);
    if (close((left + right) / 2, analytic)) return "";
  }
  const bool kink = !close(left, right) && std::fabs(right - left) > 100 * how_.tolerance;
  const double slack = how_.tolerance + rounding, low = std::min(left, right) - slack, high = std::max(left, right) + slack;
  if (kink && analytic >= low && analytic <= high) {
    ++seen_.kinks;
    return "";
  }
  return "backward() computes " + real_text(analytic) + ", central differences give " + real_text((left + right) / 2) +
         (kink ? " (at a kink: " + real_text(left) + " and " + real_text(right) + ")" : "") + ", at the value " + real_text(x);
}

void layer_checker::check_skipping(const pass_values& v) {
  auto p = make_plan(phase::train, dtype::f64);
  saved s;
  forward(v, *p, s, phase::train);
  const pass_results all = backward(v, *p, s);
  if (!same_bits(all.grad_params, backward(v, *p, s, 0, false, true).grad_params))
    find("gradients of parameters change when those of inputs are not requested");
  if (!same_bits(all.grad_in, backward(v, *p, s, 0, true, false).grad_in))
    find("gradients of inputs change when those of parameters are not requested");
  const pass_results none = backward(v, *p, s, 0, false, false);
  const auto unwanted = [](const tensor& t) { return bool(t); };
  if (std::any_of(none.grad_in.begin(), none.grad_in.end(), unwanted) ||
      std::any_of(none.grad_params.begin(), none.grad_params.end(), unwanted))
    find("a gradient that was not requested is computed");
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
      find(std::string("with accumulate, gradients of parameters are not the old values plus the new ones (") + name_of(t) + ")");
    if (!same_bits(fresh.grad_in, added.grad_in)) find("accumulate changes the gradients of inputs");
  }
}

}  // namespace troupe
