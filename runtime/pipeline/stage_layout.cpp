// What a stage reads of its plan once: the tensors that come from elsewhere, how out-edges cut what goes, and who adds to a gradient.
#include "runtime/pipeline/stage.hpp"

namespace troupe {

// What comes from elsewhere, and how every out-edge cuts what goes.
void stage::find_needs() {
  const auto& me = self();
  need_at_.resize(me.layers.size());
  for (std::size_t p = 0; p < me.layers.size(); ++p) {
    const auto& l = hosted(p);
    for (std::size_t i = 0; i < l.inputs.size(); ++i) {
      need_at_[p].push_back(-1);
      if (l.inputs[i].layer != from_data && position_of(l.inputs[i].layer) >= 0) continue;
      const auto features = part_at(p) ? part_at(p)->needs[i] : feature_range{};
      std::size_t n = 0;
      while (n < needs_.size() && !(needs_[n].what == l.inputs[i] && needs_[n].features == features)) ++n;
      if (n == needs_.size()) {
        needs_.push_back({l.inputs[i], features, {}, l.in[i]});
        for (std::size_t e = 0; e < me.in_edges.size(); ++e)
          if (in_edge(e).what == l.inputs[i] && in_edge(e).need == features) {
            needs_[n].edges.push_back(e);
            needs_[n].sum = in_edge(e).addend;
          }
      }
      need_at_[p].back() = static_cast<std::int32_t>(n);
    }
  }
  for (std::size_t e = 0; e < me.out_edges.size(); ++e) {
    const auto& edge = out_edge(e);
    const int p = position_of(edge.what.layer);
    const auto* part = p < 0 ? nullptr : part_at(static_cast<std::size_t>(p));
    const auto here = part ? made(*config_.graph, edge.what, part->features) : feature_range{};
    cuts_.push_back(edge.region == here ? feature_range{}
                                        : feature_range{edge.region.begin - here.begin, edge.region.end - here.begin});
  }
}

stage::contributions stage::contributions_of(tensor_ref t, feature_range features) const {
  contributions list;
  std::vector<bool> taken(self().out_edges.size(), false);
  for (const auto& c : config_.graph->consumers(t)) {
    const auto& consumer = config_.graph->layers[static_cast<std::size_t>(c.layer)];
    if (!consumer.in_train || !consumer.grad_in_wanted[c.output]) continue;
    if (int p = position_of(c.layer); p >= 0) {
      const auto* part = part_at(static_cast<std::size_t>(p));
      if ((part && t.layer != from_data && position_of(t.layer) < 0 ? part->needs[c.output] : features) != features) continue;
      if (!list.empty() && list.back().hosted && list.back().at == static_cast<std::size_t>(p))
        list.back().ports.push_back(c.output);
      else
        list.push_back({true, static_cast<std::size_t>(p), {c.output}, {}});
      continue;
    }
    contribution pieces{false, 0, {}, {}};
    for (std::size_t e = 0; e < taken.size(); ++e) {
      const auto& edge = out_edge(e);
      if (taken[e] || !edge.grad_back || !(edge.what == t)) continue;
      const auto& there = (*config_.plan)[edge.to].layers;
      bool hosts = false;
      for (auto l : there) hosts = hosts || l == consumer.index;
      if (!hosts) continue;
      taken[e] = true;
      if (cuts_[e].whole())
        list.push_back({false, e, {}, {}});
      else
        pieces.pieces.push_back(e);
    }
    if (!pieces.pieces.empty()) list.push_back(std::move(pieces));
  }
  return list;
}

}  // namespace troupe
