#include "runtime/coordinator/best_weights.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"
#include "runtime/messages/fits.hpp"

namespace troupe {
bool best_weights::note(const best_evaluation& e) {
  if (!keeps_ || !better(e, so_far_)) return false;
  pending_ = e;
  return true;
}

best_evaluation best_weights::stored() {
  invariant(pending_.has_value(), "weights are stored as the best only if an evaluation was better");
  so_far_ = pending_;
  give_up();
  return *so_far_;
}

void best_weights::give_up() {
  pending_.reset();
  round_.reset();
  layers_.clear();
}

bool best_weights::take(std::uint64_t round, const layer_weights& w, const model_graph& g, dtype type) {
  if (round_ != round || w.layer >= g.layers.size() || layers_.contains(w.layer)) return false;
  const auto& params = g.layers[w.layer].params;
  if (params.empty() || w.values.size() != params.size()) return false;
  for (std::size_t i = 0; i < params.size(); ++i)
    if (!fits(w.values[i], g.params[params[i]].spec.dims, type)) return false;
  layers_[w.layer] = w.values;
  return true;
}

bool best_weights::complete(const model_graph& g) const {
  return std::all_of(g.layers.begin(), g.layers.end(),
                     [&](const graph_layer& l) { return l.params.empty() || layers_.contains(l.index); });
}

best_weights::named_tensors best_weights::named(const model_graph& g) const {
  named_tensors list;
  for (const auto& p : g.params) list.emplace_back(p.full_name, layers_.at(p.layer).at(p.index_in_layer));
  return list;
}

}  // namespace troupe
