// Checks of several packets: interleaved, computed in one call, and computed in place.
#include <algorithm>
#include <cmath>

#include "ops/check_layer_checker.hpp"
#include "ops/packet_sum.hpp"

namespace troupe {

// Compares packets in sequence with forward 0, forward 1, backward 0, backward 1, with two plans
// and with a shared plan.
void layer_checker::check_purity() {
  const pass_values v[2] = {random_values(0), random_values(1)};
  pass_results alone[2];
  for (std::uint32_t k : {0U, 1U}) alone[k] = both(v[k], *make_plan(phase::train, dtype::f64), k);
  for (const bool shared : {false, true}) {
    std::unique_ptr<plan> plans[2] = {make_plan(phase::train, dtype::f64), make_plan(phase::train, dtype::f64)};
    saved s[2];
    tensors out[2];
    bool same = true;
    for (std::uint32_t k : {0U, 1U}) out[k] = forward(v[k], *plans[shared ? 0 : k], s[k], phase::train, k);
    for (std::uint32_t k : {0U, 1U}) {
      same = same && same_bits(out[k], alone[k].out);
      if (!differentiable()) continue;
      const pass_results r = backward(v[k], *plans[shared ? 0 : k], s[k], k);
      same = same && same_bits(r.grad_in, alone[k].grad_in) && same_bits(r.grad_params, alone[k].grad_params);
    }
    if (!same)
      find(std::string("impure: two packets in flight ") + (shared ? "through one plan" : "with a plan each") +
           " differ from packets in sequence (does the layer keep state of a pass?)");
  }
}

// Computation in place gives the same bits, in both phases and all types.
void layer_checker::check_in_place(const pass_values& given) {
  if (case_.in.empty() || out_shapes_.size() != 1 || !(out_shapes_[0] == case_.in[0]))
    return find("in_place() is true, but the shape of the output differs from input 0");
  for (const dtype t : types())
    for (const phase ph : {phase::train, phase::test}) {
      const pass_values v = converted(given, t);
      auto p = make_plan(ph, t);
      saved s;
      const tensors apart = forward(v, *p, s, ph);
      tensors in = v.in, out;
      in[0] = copied(in[0]);
      out.push_back(in[0]);
      context c = make_context(ph);
      saved again;
      if (!needs_.inputs || ph == phase::test) {  // otherwise hosts do not use it
        layer_.forward(c, *p, in, v.params, out, again);
        if (!same_bits(apart, out)) find("forward() in place gives different outputs");
      }
      if (ph == phase::test || !differentiable()) continue;
      const pass_results r = backward(v, *p, s);
      tensors grad_out = {copied(v.grad_out[0])}, grad_in = r.grad_in, grad_params = r.grad_params;
      grad_in[0] = grad_out[0];
      for (auto& g : grad_params)
        if (g) g = poisoned(g.dims(), g.type());
      layer_.backward(c, *p, s, v.params, grad_out, grad_in, grad_params, false);
      if (!same_bits(r.grad_in, grad_in) || !same_bits(r.grad_params, grad_params))
        find("backward() in place gives different gradients");
    }
}

// Several packets in one call, against single packets with their gradients added.
void layer_checker::check_gathered() {
  for (const dtype t : types())
    for (const std::uint32_t packets : {2U, 3U, 4U}) {
      std::vector<pass_values> each;
      std::vector<pass_results> alone;
      for (std::uint32_t k = 0; k < packets; ++k) {
        each.push_back(converted(random_values(k), t));
        alone.push_back(both(each[k], *make_plan(phase::train, t), k));
      }
      const auto of_each = [&](const auto& list, auto tensors_of) {
        tensors all;
        for (std::size_t i = 0; i < (list[0].*tensors_of).size(); ++i) {
          tensors parts;
          for (const auto& x : list) parts.push_back((x.*tensors_of)[i]);
          all.push_back(stacked(dev_, parts));
        }
        return all;
      };
      const pass_values v{of_each(each, &pass_values::in), each[0].params, of_each(each, &pass_values::grad_out), t};
      const pass_results want{of_each(alone, &pass_results::out), of_each(alone, &pass_results::grad_in), {}};
      shapes in;
      for (const auto& x : v.in) in.push_back(x.dims());
      auto p = layer_.prepare(dev_, in, phase::train, t);
      context c = make_context(phase::train);
      saved s;
      tensors out = poisoned_like(want.out);
      layer_.gathered()->forward_all(c, packets, *p, v.in, v.params, out, s);
      const std::string what = std::to_string(packets) + " packets in one call (" + name_of(t) + "): ";
      if (!same_bits(want.out, out)) find(what + "outputs differ from those of single packets");
      if (!differentiable()) continue;
      s.inputs = needs_.inputs ? v.in : poisoned_like(v.in);
      s.outputs = needs_.outputs ? out : poisoned_like(out);
      tensors grad_in, grad_params, sums;
      for (const auto& g : want.grad_in) grad_in.push_back(g ? poisoned(g.dims(), g.type()) : tensor());
      for (std::size_t i = 0; i < specs_.size(); ++i) {
        const auto& g = alone[0].grad_params[i];
        grad_params.push_back(g ? poisoned(g.dims(), g.type()) : tensor());
        sums.push_back(grad_params[i] ? copied(g) : tensor());
        if (sums[i])
          sum_over_packets(dev_, packets, sums[i],
                           [&](std::int64_t k, tensor& to) { dev_.copy(alone[static_cast<std::size_t>(k)].grad_params[i], to); });
      }
      layer_.gathered()->backward_all(c, packets, *p, s, v.params, v.grad_out, grad_in, grad_params);
      if (!same_bits(want.grad_in, grad_in)) find(what + "gradients of inputs differ from those of single packets");
      if (!same_bits(sums, grad_params)) find(what + "gradients of parameters are not the sum over the packets");
    }
}

}  // namespace troupe
