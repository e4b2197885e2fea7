// The jobs of a stage. They run wherever the host likes, touch nothing but their slot, and read the graph and the plan.
#include "ops/device.hpp"
#include "runtime/pipeline/stage.hpp"

namespace troupe {

void stage::gather(slot& s, std::size_t position) const {
  const auto& l = hosted(position);
  auto& in = s.passes[position].in;
  in.assign(l.inputs.size(), tensor{});
  for (std::size_t i = 0; i < l.inputs.size(); ++i) {
    const int p = l.inputs[i].layer == from_data ? -1 : position_of(l.inputs[i].layer);
    if (p >= 0) {
      in[i] = s.passes[static_cast<std::size_t>(p)].out[l.inputs[i].output];
      continue;
    }
    for (std::size_t e = 0; e < s.inputs.size(); ++e)
      if (in_edge(e).what == l.inputs[i]) in[i] = s.inputs[e];
  }
}

void stage::layer_forward(slot& s, std::size_t position, device& d) const {
  const auto& l = hosted(position);
  auto& pass = s.passes[position];
  gather(s, position);
  const auto ph = s.h.phase;
  if (!pass.plans[ph] || pass.planned_examples[ph] != s.examples) {
    shapes in;
    for (const auto& t : pass.in) in.push_back(t.dims());
    pass.plans[ph] = l.maths->prepare(d, in, static_cast<phase>(ph), config_.type);
    pass.planned_examples[ph] = s.examples;
  }
  context c{d, static_cast<phase>(ph), config_.seed, l.index, s.h.step, s.first_example, s.h.packet, s.h.packets, &pass.stats};
  l.maths->forward(c, *pass.plans[ph], pass.in, pass.params, pass.out, pass.kept);
  if (training(s) && l.wants_backward) {
    const auto needs = l.maths->backward_needs(l.in);
    if (needs.inputs) pass.kept.inputs = pass.in;
    if (needs.outputs) pass.kept.outputs = pass.out;
  }
  if (l.maths->is_loss() || l.maths->is_metric()) s.scalars.emplace_back(l.name, d.scalar(pass.out[0]));
}

void stage::run_forward(slot& s, device& d) const {
  for (std::size_t p = 0; p < s.passes.size(); ++p) {
    const auto& l = hosted(p);
    if (training(s) ? l.in_train : l.in_test) layer_forward(s, p, d);
  }
}

// The first addend is handed on as it is; from the second on the sum gets memory of its own, since what was sent is immutable.
tensor stage::add_up(const slot& s, const contributions& from, device& d) const {
  tensor sum;
  bool own = false;
  for (const auto& c : from) {
    const auto& part = c.hosted ? s.passes[c.at].grad_in[c.port] : s.arriving[c.at];
    if (!part) continue;
    if (!sum) {
      sum = part;
    } else if (own) {
      d.axpy(1.0, part, sum);
    } else {
      auto both = tensor::allocate(d, sum.dims(), sum.type());
      d.apply(binary::add, sum, part, both);
      sum = both;
      own = true;
    }
  }
  return sum;
}

void stage::fill_grad_out(slot& s, std::size_t position, device& d) const {
  const auto& l = hosted(position);
  auto& pass = s.passes[position];
  for (std::size_t o = 0; o < l.out.size(); ++o) {
    auto g = add_up(s, out_grads_[position][o], d);
    if (!g) {
      g = tensor::allocate(d, pass.out[o].dims(), config_.type);
      d.fill(o == 0 ? l.loss_weight : 0.0, g);
    }
    pass.grad_out[o] = g;
  }
}

void stage::layer_backward(slot& s, std::size_t position, device& d) const {
  const auto& l = hosted(position);
  auto& pass = s.passes[position];
  fill_grad_out(s, position, d);
  context c{d, phase::train, config_.seed, l.index, s.h.step, s.first_example, s.h.packet, s.h.packets, &pass.stats};
  l.maths->backward(c, *pass.plans[0], pass.kept, pass.params, pass.grad_out, pass.grad_in, pass.grad_params, false);
  pass.kept = {};
}

void stage::run_backward(slot& s, device& d) const {
  for (std::size_t p = s.passes.size(); p-- > 0;)
    if (hosted(p).wants_backward && hosted(p).in_train) layer_backward(s, p, d);
  hand_back(s, d);
}

void stage::hand_back(slot& s, device& d) const {
  for (std::size_t e = 0; e < s.inputs.size(); ++e)
    if (in_edge(e).grad_back) s.inputs[e] = add_up(s, in_grads_[e], d);
}

}  // namespace troupe
