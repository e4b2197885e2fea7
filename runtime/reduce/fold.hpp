// Running statistics (batch normalisation's mean and variance): parameters that no gradient reaches
// (param_spec::trainable is false). They follow the packets' own, one after the other in packet
// order:
//   running = (1 - momentum) running + momentum packet's
// Over the P packets of one update that is
//   running (1 - momentum)^P + sum over p of momentum (1 - momentum)^(P - 1 - p) packet p's
// so a packet's statistics get their weight where they enter the sum of gradients, travel and are added as gradients are, in the fixed
// tree over packets, and the update is one line. Hence n workers = one worker, bit for bit, with any reducer. Statistics that all packets
// of a step have in common (param_spec::once_a_step) count once: packet 0 has weight momentum, the others 0.
// Pure; weights are made by multiplication alone, the same on every machine.
#pragma once

#include <cstdint>

#include "ops/layer.hpp"
#include "runtime/model/graph.hpp"

namespace troupe {

// Of packet `packet` of `packets`.
double fold_weight(const param_spec& p, std::uint32_t packet, std::uint32_t packets);
// What is left of `running` after an update.
double fold_keep(const param_spec& p, std::uint32_t packets);

// Puts the weighted statistics where the gradients of a layer's untrained parameters would be.
// `stats`: one a buffer, in the order of parameters; `grads` must have a tensor declared for each.
void weigh_statistics(device& d, const model_graph& g, const graph_layer& l, const tensors& stats, std::uint32_t packet,
                      std::uint32_t packets, tensors& grads);

// out = running fold_keep + sum; out may be running's memory.
void fold_statistics(device& d, const param_spec& p, std::uint32_t packets, const tensor& running, const tensor& sum, tensor& out);

}  // namespace troupe
