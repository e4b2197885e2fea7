#include "runtime/stage/stage_layout.hpp"

#include <algorithm>
#include <map>

namespace troupe {

stage_layout::stage_layout(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, role_id self_id)
    : graph_(std::move(g)), plan_(std::move(p)), self_(self_id) {
  std::vector<const graph_layer*> here;
  for (std::size_t k = 0; k < self().layers.size(); ++k) here.push_back(&hosted(k));
  steps_ = maths_steps(*graph_, here, plan_->fuse_layers);
  step_of_.resize(here.size());
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    for (auto at : steps_[k].at) step_of_[at] = k;
    const auto wants = steps_[k].maths->backward_needs(hosted(steps_[k].first()).in);
    wants_of_.push_back({wants.inputs, wants.outputs});
  }
  find_needs();
  find_cuts();
  out_grads_.resize(here.size());
  for (std::size_t k = 0; k < here.size(); ++k)
    for (std::size_t o = 0; o < here[k]->out.size(); ++o)
      out_grads_[k].push_back(contributions_of({static_cast<std::int32_t>(here[k]->index), static_cast<std::uint16_t>(o)}, {}));
  for (auto& n : needs_) n.gradient = contributions_of(n.what, n.features);
  const auto held_needs = find_held();
  for (const auto ph : {phase::train, phase::test}) find_last_reads(static_cast<std::uint8_t>(ph), held_needs);
  find_costs();
}

void stage_layout::find_costs() {
  double made_again = 0;
  for (std::size_t k = 0; k < self().layers.size(); ++k) {
    const auto& l = hosted(k);
    const bool scalar = l.maths->is_loss() || l.maths->is_metric();
    phases_[0].reports = phases_[0].reports || (scalar && l.in_train);
    phases_[1].reports = phases_[1].reports || (scalar && l.in_test);
    wants_backward_ = wants_backward_ || (l.wants_backward && l.in_train);
    forward_cost_.flops += l.maths->flops(l.in);
    if (l.recompute) made_again += l.maths->flops(l.in);
  }
  forward_cost_.kind = "forward";
  backward_cost_ = {2 * forward_cost_.flops + made_again, 0, "backward"};
}

int stage_layout::position_of(std::int32_t layer) const {
  const auto& mine = self().layers;
  for (std::size_t p = 0; p < mine.size(); ++p)
    if (static_cast<std::int32_t>(mine[p]) == layer) return static_cast<int>(p);
  return -1;
}

bool stage_layout::edge_used(const plan_edge& e, const header& h) const {
  if (h.phase == static_cast<std::uint8_t>(phase::train)) return e.in_train && e.packets.has(h.packet);
  if (!e.in_test) return false;
  return e.packets.has(plan_->way_of(h.id));
}

shape stage_layout::sized(const shape& s, std::int64_t examples) const {
  shape r = s;
  if (r.rank() > 0 && r[0] == graph_->packet_examples) r.set(0, examples);
  return r;
}

void stage_layout::find_needs() {
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
}

void stage_layout::find_cuts() {
  for (std::size_t e = 0; e < self().out_edges.size(); ++e) {
    const auto& edge = out_edge(e);
    const int p = position_of(edge.what.layer);
    const auto* part = p < 0 ? nullptr : part_at(static_cast<std::size_t>(p));
    const auto here = part ? made(*graph_, edge.what, part->features) : feature_range{};
    cuts_.push_back(edge.region == here ? feature_range{}
                                        : feature_range{edge.region.begin - here.begin, edge.region.end - here.begin});
  }
}

stage_layout::contributions stage_layout::contributions_of(tensor_ref t, feature_range features) const {
  contributions list;
  std::vector<bool> taken(self().out_edges.size(), false);
  for (const auto& c : graph_->consumers(t)) {
    const auto& consumer = graph_->layers[static_cast<std::size_t>(c.layer)];
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
    std::vector<std::pair<std::int64_t, std::size_t>> parts;  // of the consumer: first feature, edge
    for (std::size_t e = 0; e < taken.size(); ++e) {
      const auto& edge = out_edge(e);
      if (taken[e] || !edge.grad_back || !(edge.what == t)) continue;
      const auto& to = (*plan_)[edge.to];
      const auto there = std::find(to.layers.begin(), to.layers.end(), consumer.index);
      if (there == to.layers.end()) continue;
      taken[e] = true;
      if (!cuts_[e].whole()) {
        pieces.pieces.push_back(e);
        continue;
      }
      const auto* part = to.parts.empty() ? nullptr : to.parts[static_cast<std::size_t>(there - to.layers.begin())].get();
      parts.emplace_back(part ? part->features.begin : 0, e);
    }
    // In the order of the parts, wherever they are: roles, and so edges, are in the order of
    // devices.
    std::sort(parts.begin(), parts.end());
    for (const auto& [begin, e] : parts) list.push_back({false, e, {}, {}});
    if (!pieces.pieces.empty()) list.push_back(std::move(pieces));
  }
  return list;
}

// Marks the tensors that recomputed layers read: they are kept until the backward of those layers.
// Returns the marks of the needs.
std::vector<bool> stage_layout::find_held() {
  const auto count = self().layers.size();
  held_.resize(count);
  std::vector<bool> held_needs(needs_.size(), false);
  for (std::size_t p = 0; p < count; ++p) held_[p].assign(hosted(p).out.size(), false);
  for (const auto& step : steps_) {
    const auto& l = hosted(step.first());
    for (std::size_t i = 0; i < l.inputs.size() && l.in_train && l.recompute; ++i) {
      const int q = maker_of(step.first(), i);
      if (q < 0)
        held_needs[static_cast<std::size_t>(need_at(step.first(), i))] = true;
      else if (!recomputes(static_cast<std::size_t>(q)))
        held_[static_cast<std::size_t>(q)][l.inputs[i].output] = true;
    }
  }
  return held_needs;
}

void stage_layout::find_last_reads(std::uint8_t ph, const std::vector<bool>& held_needs) {
  const auto& me = self();
  auto& [last, leaves, reports] = phases_[ph];
  leaves.resize(me.layers.size());
  for (std::size_t p = 0; p < leaves.size(); ++p) leaves[p].assign(hosted(p).out.size(), false);
  for (std::size_t e = 0; e < me.out_edges.size(); ++e)
    if (const auto& edge = out_edge(e); ph == 0 ? edge.in_train : edge.in_test)
      leaves[static_cast<std::size_t>(position_of(edge.what.layer))][edge.what.output] = true;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> reader;  // by (position, output): the last step that reads it
  std::map<std::size_t, std::size_t> need_reader;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const auto p = steps_[k].first();
    const auto& l = hosted(p);
    for (std::size_t o = 0; o < hosted(steps_[k].last()).out.size(); ++o) reader[{steps_[k].last(), o}] = k;
    for (std::size_t i = 0; i < l.inputs.size() && (ph == 0 ? l.in_train : l.in_test); ++i) {
      if (const int q = maker_of(p, i); q >= 0)
        reader[{static_cast<std::size_t>(q), l.inputs[i].output}] = k;
      else
        need_reader[static_cast<std::size_t>(need_at(p, i))] = k;
    }
  }
  last.resize(steps_.size());
  for (const auto& [what, k] : reader) {
    if (leaves[what.first][what.second] || (ph == 0 && held_[what.first][what.second])) continue;
    last[k].outputs.push_back(what);
    const auto& from = hosted(steps_[k].first()).inputs;
    last[k].input_0 |=
        !from.empty() && maker_of(steps_[k].first(), 0) == static_cast<int>(what.first) && from[0].output == what.second;
  }
  for (const auto& [n, k] : need_reader) {
    if (ph == 0 && held_needs[n]) continue;
    last[k].needs.push_back(n);
    last[k].input_0 |= need_at(steps_[k].first(), 0) == static_cast<std::int32_t>(n);
  }
}

}  // namespace troupe
