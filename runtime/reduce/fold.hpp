// Running statistics (mean and variance of batch normalisation): parameters that have no gradient
// (param_spec::trainable is false). They follow the packets' own statistics, one packet after the
// other, in packet order:
//   running = (1 - momentum) running + momentum packet's
// Over the P packets of one update that is
//   running (1 - momentum)^P + sum over p of momentum (1 - momentum)^(P - 1 - p) packet p's
// So a packet's statistics are multiplied by their weight when they enter the sum of gradients.
// They travel and are added as gradients are, in the packet tree, and the update is one line. Hence
// n workers have the bits of one worker, with every reducer but `ring`. Statistics that all packets
// of a step have in common (param_spec::once_a_step) count once: packet 0 has weight momentum, the
// others 0.
// Pure functions. Weights are computed by multiplication alone, so they are the same on every
// machine.
#pragma once

#include <cstdint>

#include "ops/layer.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// The weight of packet `packet` of `packets`.
double fold_weight(const param_spec& p, std::uint32_t packet, std::uint32_t packets);
// The factor of `running` in an update.
double fold_keep(const param_spec& p, std::uint32_t packets);

// Writes the weighted statistics to `grads`, at the places of the layer's parameters without
// gradient. `stats`: one for each of these, in parameter order; `grads` must have a declared tensor
// for each.
void weigh_statistics(device& d, const model_graph& g, const graph_layer& l, const tensors& stats, std::uint32_t packet,
                      std::uint32_t packets, tensors& grads);

// out = running * fold_keep + sum; `out` may be the memory of `running`.
void fold_statistics(device& d, const param_spec& p, std::uint32_t packets, const tensor& running, const tensor& sum, tensor& out);

// The update of a parameter or statistic that is frozen: `out` and `states_out` are, or become,
// copies of `value` and `states`.
void keep_value(device& d, const tensor& value, tensor& out, const tensors& states, tensors& states_out);

}  // namespace troupe
