#include "runtime/reduce/fold.hpp"

#include "ops/device.hpp"

namespace troupe {
namespace {

double power(double x, std::uint32_t n) {
  double y = 1.0;
  for (std::uint32_t i = 0; i < n; ++i) y *= x;
  return y;
}

}  // namespace

double fold_weight(const param_spec& p, std::uint32_t packet, std::uint32_t packets) {
  if (p.once_a_step) return packet == 0 ? p.momentum : 0.0;
  return p.momentum * power(1.0 - p.momentum, packets - 1 - packet);
}

double fold_keep(const param_spec& p, std::uint32_t packets) { return power(1.0 - p.momentum, p.once_a_step ? 1 : packets); }

void weigh_statistics(device& d, const model_graph& g, const graph_layer& l, const tensors& stats, std::uint32_t packet,
                      std::uint32_t packets, tensors& grads) {
  std::size_t k = 0;
  for (std::size_t i = 0; i < l.params.size() && k < stats.size(); ++i) {
    const auto& spec = g.params[l.params[i]].spec;
    if (spec.trainable) continue;
    grads[i].back(d);
    d.copy(stats[k++], grads[i]);
    d.scale(fold_weight(spec, packet, packets), grads[i]);
  }
}

void keep_value(device& d, const tensor& value, tensor& out, const tensors& states, tensors& states_out) {
  const auto keep = [&d](const tensor& from, tensor& to) {
    to.back(d);
    if (!to.same_storage(from)) d.copy(from, to);
  };
  keep(value, out);
  for (std::size_t k = 0; k < states.size(); ++k) keep(states[k], states_out[k]);
}

void fold_statistics(device& d, const param_spec& p, std::uint32_t packets, const tensor& running, const tensor& sum, tensor& out) {
  out.back(d);
  if (!out.same_storage(running)) d.copy(running, out);
  d.scale(fold_keep(p, packets), out);
  d.axpy(1.0, sum, out);
}

}  // namespace troupe
