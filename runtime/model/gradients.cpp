#include "runtime/model/gradients.hpp"

#include <algorithm>

namespace troupe {
namespace {

// Returns true if a gradient flows from layer `g` to the producer of its input k.
bool flows(const model_graph& graph, const graph_layer& g, std::size_t k) {
  const bool learns_alone = graph.local && g.maths->is_loss() && !g.params.empty();
  return g.maths->differentiable(k) && !learns_alone;
}

// By layer: true if the layer or one that its gradients flow to has parameters, trained or folded
// (running statistics are sent with the gradients).
std::vector<bool> trains(const model_graph& graph) {
  std::vector<bool> found(graph.layers.size(), false);
  for (const auto& g : graph.layers) {
    bool t = !g.params.empty();
    for (std::size_t k = 0; k < g.inputs.size(); ++k)
      t = t || (g.inputs[k].layer >= 0 && flows(graph, g, k) && found[static_cast<std::size_t>(g.inputs[k].layer)]);
    found[g.index] = t;
  }
  return found;
}

// By layer: true if a loss in training depends on it.
std::vector<bool> reaches_loss(const model_graph& graph) {
  std::vector<bool> found(graph.layers.size(), false);
  for (auto g = graph.layers.rbegin(); g != graph.layers.rend(); ++g) {
    if (!g->in_train) continue;
    if (g->maths->is_loss()) found[g->index] = true;
    if (!found[g->index]) continue;
    for (std::size_t k = 0; k < g->inputs.size(); ++k)
      if (g->inputs[k].layer >= 0 && flows(graph, *g, k)) found[static_cast<std::size_t>(g->inputs[k].layer)] = true;
  }
  return found;
}

}  // namespace

bool has_trainable(const model_graph& graph, const graph_layer& layer) {
  return std::any_of(layer.params.begin(), layer.params.end(), [&](auto p) { return graph.params[p].spec.trainable; });
}

void mark_gradients(model_graph& graph) {
  const auto trained = trains(graph), lossy = reaches_loss(graph);
  for (auto& g : graph.layers) {
    g.wants_backward = trained[g.index] && lossy[g.index];
    g.grad_in_wanted.clear();
    for (std::size_t k = 0; k < g.inputs.size(); ++k) {
      const auto from = g.inputs[k].layer;
      g.grad_in_wanted.push_back(g.wants_backward && from >= 0 && flows(graph, g, k) && trained[static_cast<std::size_t>(from)]);
    }
  }
}

dtype model_graph::type_of(tensor_ref t, dtype activations) const {
  if (t.layer == from_data) return t.output == 1 ? label_type(activations) : data_type(activations);
  return output_type(*layers[static_cast<std::size_t>(t.layer)].maths, t.output, activations);
}

std::vector<tensor_ref> model_graph::consumers(tensor_ref t) const {
  std::vector<tensor_ref> found;
  for (const auto& g : layers)
    for (std::size_t k = 0; k < g.inputs.size(); ++k)
      if (g.inputs[k] == t) found.push_back({static_cast<std::int32_t>(g.index), static_cast<std::uint16_t>(k)});
  return found;
}

bool model_graph::carries() const {
  return std::any_of(layers.begin(), layers.end(), [](const graph_layer& l) { return !l.carries.empty(); });
}

double model_graph::flops_per_packet() const {
  double sum = 0;
  for (const auto& g : layers)
    if (g.in_train) sum += g.maths->flops(g.in);
  return sum;
}

}  // namespace troupe
