#include "runtime/plain/prediction.hpp"

namespace troupe {
namespace {

prediction of_loss(const model_graph& g, const graph_layer& l) {
  prediction p{l.inputs[0], answer::values};
  const bool classes = l.inputs.size() > 1 && from_label(l.inputs[1]) && !g.targets;
  if (l.type == "softmax_loss") p.meaning = answer::softmax;
  if (l.type == "sigmoid_cross_entropy" && classes) p.meaning = answer::sigmoid;
  if (l.type == "hinge" && classes) p.meaning = answer::scores;
  return p;
}

}  // namespace

expected<prediction> prediction_of(const model_graph& g) {
  const auto tested = [&](tensor_ref t) { return t.layer >= 0 && g.layers[static_cast<std::size_t>(t.layer)].in_test; };
  const graph_layer *loss = nullptr, *metric = nullptr;
  for (const auto& l : g.layers)
    if (l.maths->is_metric() && !l.inputs.empty() && tested(l.inputs[0])) metric = &l;
  for (const auto& l : g.layers) {
    if (!l.maths->is_loss() || l.inputs.empty() || !tested(l.inputs[0])) continue;
    const bool measured = metric && l.inputs[0] == metric->inputs[0];
    if (!loss || measured || !metric || !(loss->inputs[0] == metric->inputs[0])) loss = &l;
  }
  if (loss) return of_loss(g, *loss);
  if (metric) return prediction{metric->inputs[0], answer::scores};
  return unexpected(error("the job has no loss whose prediction is computed in tests"));
}

}  // namespace troupe
