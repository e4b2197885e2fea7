#include "runtime/plain/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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

std::vector<double> by_class(answer meaning, std::vector<double> v) {
  if (meaning == answer::softmax) {
    const auto most = *std::max_element(v.begin(), v.end());
    double sum = 0;
    for (auto& e : v) sum += e = std::exp(e - most);
    for (auto& e : v) e /= sum;
  } else if (meaning == answer::sigmoid) {
    for (auto& e : v) e = 1 / (1 + std::exp(-e));
    if (v.size() == 1) v.insert(v.begin(), 1 - v[0]);
  } else if (meaning == answer::scores && v.size() == 1) {
    v.insert(v.begin(), -v[0]);
  }
  return v;
}

std::vector<std::int64_t> best_classes(const std::vector<double>& values, std::size_t most) {
  most = std::min(most, values.size());
  if (std::any_of(values.begin(), values.end(), [](double e) { return std::isnan(e); })) return std::vector<std::int64_t>(most, -1);
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto value = [&](std::int64_t k) { return values[static_cast<std::size_t>(k)]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end(),
                    [&](std::int64_t a, std::int64_t b) { return value(a) > value(b) || (value(a) == value(b) && a < b); });
  order.resize(most);
  return order;
}

}  // namespace troupe
