// Parameters that several layers share: `share = "embed"` in a [[layer]].
//
// The layer that owns the parameters passes them along with each packet, as further outputs; the
// layers that share them read them as further inputs. So a packet is computed with one version of a
// parameter in all its layers, and backward returns their gradients to the owner, which adds them
// to its own: first the owner's, then those of the others in layer order. Plans, synchronisation
// modes, reducers, checkpoints and update rules see one parameter, of the owner. On one node such
// an output is another handle to the parameter's memory.
//
// Between nodes (placed layers, pipelines) the parameter is sent with each packet, and its gradient
// back. A layer that owns or shares parameters cannot be split by feature or input, gather packets,
// or compute them jointly; its precision is fp32 or f64.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "runtime/model/graph.hpp"

namespace troupe {

// Returns true if the tensor is a parameter that its layer passes along.
inline bool is_parameter(const model_graph& g, tensor_ref t) {
  if (t.layer < 0) return false;
  const auto& l = g.layers[static_cast<std::size_t>(t.layer)];
  return t.output + std::size_t{l.shared_out} >= l.out.size();
}

// "embed.weight" as "embed" and "weight"; "embed" as "embed" and "".
std::pair<std::string, std::string> shared_name(const std::string& share);

// The hint about an unknown name of a layer.
std::string did_you_mean_layer(const job_spec& job, const std::string& name);

// Makes layer `l`, whose inputs are known and fit it, use the parameters of `owner`, which is
// before it in `g`. Returns the mistake if it cannot.
std::optional<std::string> share_parameters(model_graph& g, graph_layer& l, graph_layer& owner, dtype activations);

// The layer as if it shared nothing: its own inputs and outputs, and all its parameters, those of
// other layers included.
graph_layer as_if_alone(const model_graph& g, const graph_layer& l);

}  // namespace troupe
