#include "ops/check_layer_passes.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace troupe {

tensor layer_passes::random(shape s, std::uint32_t number, double deviation) {
  tensor narrow = tensor::allocate(dev_, s, dtype::f32), wide = tensor::allocate(dev_, s, dtype::f64);
  dev_.fill_gaussian({seed_, number, 0x40000000U}, 0.0, deviation, narrow);
  dev_.copy(narrow, wide);  // values are exact in f32, so that both types get the same numbers
  return wide;
}

// Of eight consecutive elements, three are normal, two uniform in [-8, 8], two near a common kink
// but further from it than a step of the differences, and one has a magnitude of 8 to 24.
tensor layer_passes::wide_random(shape s, std::uint32_t number) {
  constexpr double kinks[] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6};
  const auto uniform = [&](std::uint32_t which, double low, double high) {
    tensor u = tensor::allocate(dev_, s, dtype::f32);
    dev_.fill_uniform({seed_, number, 0x40000000U + which}, low, high, u);
    return home(u);
  };
  const tensor normal = home(random(s, number)), place = uniform(1, -1, 1), choice = uniform(2, 0, std::size(kinks));
  tensor values = tensor::allocate(dev_.host(), s, dtype::f64), there = tensor::allocate(dev_, s, dtype::f64);
  for (std::int64_t i = 0; i < values.count(); ++i) {
    const double n = value(normal, i), u = value(place, i);
    const auto kind = (i + static_cast<std::int64_t>(seed_)) % 8;
    double x = n;
    if (kind == 1 || kind == 5) x = 8 * u;
    if (kind == 2 || kind == 6)
      x = std::copysign(kinks[static_cast<std::size_t>(value(choice, i)) % std::size(kinks)], n) +
          std::copysign(0.004 + 0.05 * std::fabs(u), u);
    if (kind == 3) x = std::copysign(8 + 16 * std::fabs(u), u);
    values.mutable_data<double>()[i] = static_cast<float>(x);  // exact in f32, as in random()
  }
  dev_.fetch(values, there);
  return there;
}

tensor layer_passes::labels(shape s, std::uint32_t number) {
  const tensor u = home(random(s, number));
  tensor t = tensor::allocate(dev_.host(), s, dtype::i32), there = tensor::allocate(dev_, s, dtype::i32);
  for (std::int64_t i = 0; i < t.count(); ++i) {
    const auto n = static_cast<std::int64_t>(std::fabs(value(u, i)) * 1e6);
    t.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(n % std::max<std::int64_t>(case_.classes, 1));
  }
  dev_.fetch(t, there);
  return there;
}

pass_values layer_passes::random_values(std::uint32_t packet, spread of_inputs) {
  pass_values v;
  std::uint32_t number = packet * 1000;
  for (std::size_t i = 0; i < case_.in.size(); ++i) {
    const bool label = case_.integer_labels && i + 1 == case_.in.size();
    const shape& s = case_.in[i];
    ++number;
    v.in.push_back(label ? labels(s, number) : of_inputs == spread::wide ? wide_random(s, number) : random(s, number));
  }
  number = 500;  // parameters do not depend on the packet
  for (const auto& p : specs_) {
    v.params.push_back(random(p.dims, ++number, 0.5));
    if (!p.trainable) dev_.map(unary::absolute, 0.0, v.params.back(), v.params.back());  // a running variance is not negative
  }
  number = packet * 1000 + 800;
  for (const auto& s : out_shapes_) v.grad_out.push_back(random(s, ++number));
  return v;
}

tensors layer_passes::converted(const tensors& from, dtype t) {
  tensors to;
  for (const auto& x : from) {
    to.push_back(x);
    if (!floating(x) || x.type() == t) continue;
    to.back() = tensor::allocate(dev_, x.dims(), t);
    dev_.copy(x, to.back());
  }
  return to;
}

pass_values layer_passes::converted(const pass_values& v, dtype t) {
  pass_values w{converted(v.in, t), converted(v.params, wide_of(t)), {}, t};
  for (std::size_t i = 0; i < v.grad_out.size(); ++i)
    w.grad_out.push_back(converted({v.grad_out[i]}, output_type(layer_, i, t))[0]);
  return w;
}

tensor layer_passes::copied(const tensor& x) {
  tensor y = tensor::allocate(dev_, x.dims(), x.type());
  dev_.copy(x, y);
  return y;
}

tensors layer_passes::copied(const tensors& xs) {
  tensors ys;
  for (const auto& x : xs) ys.push_back(x ? copied(x) : tensor());
  return ys;
}

tensor layer_passes::poisoned(shape s, dtype t) {
  tensor x = tensor::allocate(dev_, s, t);
  dev_.fill(nan, x);
  return x;
}

tensors layer_passes::poisoned_outputs(dtype t) {
  tensors out;
  for (std::size_t i = 0; i < out_shapes_.size(); ++i) out.push_back(poisoned(out_shapes_[i], output_type(layer_, i, t)));
  return out;
}

tensors layer_passes::poisoned_like(const tensors& xs) {
  tensors ys;
  for (const auto& x : xs) ys.push_back(floating(x) ? poisoned(x.dims(), x.type()) : x);
  return ys;
}

context layer_passes::make_context(phase ph, std::uint32_t packet) const {
  return {.dev = dev_,
          .ph = ph,
          .seed = seed_,
          .layer = 3,
          .step = 7,
          .first_example = 100ULL * packet,
          .packet = packet,
          .packets = 2};
}

std::unique_ptr<plan> layer_passes::make_plan(phase ph, dtype t) const { return layer_.prepare(dev_, case_.in, ph, t); }

tensors layer_passes::forward(const pass_values& v, plan& p, saved& s, phase ph, std::uint32_t packet) {
  context c = make_context(ph, packet);
  tensors out = poisoned_outputs(v.type);
  for (const auto* list : {&v.in, &v.params})
    for (tensor x : *list) x.freeze();
  layer_.forward(c, p, v.in, v.params, out, s);
  s.inputs = needs_.inputs ? v.in : poisoned_like(v.in);
  s.outputs = needs_.outputs ? out : poisoned_like(out);
  return out;
}

pass_results layer_passes::backward(const pass_values& v, plan& p, const saved& s, std::uint32_t packet, bool want_in,
                                    bool want_params, const tensors* into) {
  context c = make_context(phase::train, packet);
  pass_results r;
  for (std::size_t i = 0; i < v.in.size(); ++i)
    r.grad_in.push_back(want_in && wants_gradient(i) ? poisoned(v.in[i].dims(), v.type) : tensor());
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    r.grad_params.push_back(want_params && specs_[i].trainable ? poisoned(specs_[i].dims, wide_of(v.type)) : tensor());
    if (into != nullptr && r.grad_params[i]) r.grad_params[i] = copied((*into)[i]);
  }
  layer_.backward(c, p, s, v.params, v.grad_out, r.grad_in, r.grad_params, into != nullptr);
  return r;
}

pass_results layer_passes::both(const pass_values& v, plan& p, std::uint32_t packet) {
  saved s;
  tensors out = forward(v, p, s, phase::train, packet);
  pass_results r;
  if (differentiable()) r = backward(v, p, s, packet);
  r.out = std::move(out);
  return r;
}

std::vector<double> layer_passes::outputs_of(const pass_values& v, plan& p, std::uint32_t packet) {
  saved s;
  std::vector<double> all;
  for (const tensor& out : home(forward(v, p, s, phase::train, packet)))
    for (std::int64_t j = 0; j < out.count(); ++j) all.push_back(value(out, j));
  return all;
}

}  // namespace troupe
