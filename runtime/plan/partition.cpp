// Parts of layers: their features and elements, and the part as a layer of its own shapes.
#include "runtime/plan/partition.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "runtime/plan/partition_ways.hpp"

namespace troupe {

packet_range intersection(packet_range a, packet_range b) {
  const auto first = std::max(a.first, b.first);
  const auto end = std::min<std::uint64_t>(std::uint64_t{a.first} + a.count, std::uint64_t{b.first} + b.count);
  return end > first ? packet_range{first, static_cast<std::uint32_t>(end - first)} : packet_range{};
}

std::vector<std::int64_t> share_out(std::int64_t total, const std::vector<double>& fraction) {
  std::vector<std::int64_t> counts(fraction.size(), 0);
  auto left = total;
  for (std::size_t k = 1; k < fraction.size(); ++k) {
    // The small term keeps 0.3 of 10 at 3: in binary, 0.3 is slightly less than 0.3.
    counts[k] = static_cast<std::int64_t>(std::floor(fraction[k] * static_cast<double>(total) + 1e-9 * static_cast<double>(total)));
    left -= counts[k];
  }
  if (!counts.empty()) counts[0] = left;
  return counts;
}

std::vector<std::int64_t> balanced(std::int64_t total, const std::vector<double>& cost) {
  std::vector<std::int64_t> counts(cost.size(), 1);
  // The cost of each part with one unit more, the cheapest first; of equal ones the lower index.
  using next = std::pair<double, std::size_t>;
  std::priority_queue<next, std::vector<next>, std::greater<>> order;
  for (std::size_t k = 0; k < cost.size(); ++k) order.emplace(2 * cost[k], k);
  for (auto left = total - static_cast<std::int64_t>(cost.size()); left > 0 && !order.empty(); --left) {
    const auto k = order.top().second;
    order.pop();
    order.emplace(static_cast<double>(++counts[k] + 1) * cost[k], k);
  }
  return counts;
}

shape cut(const shape& s, const feature_range& r) {
  shape t = s;
  if (!r.whole()) t.set(1, r.count());
  return t;
}

element_range elements_of(const model_graph& g, std::uint32_t p, const part_layer* part) {
  if (!part) return {0, g.params[p].spec.dims.count()};
  const auto& mine = part->as.params;
  const auto at = std::find(mine.begin(), mine.end(), p);
  return at == mine.end() ? element_range{} : part->elements[static_cast<std::size_t>(at - mine.begin())];
}

feature_range needed(const graph_layer& l, std::size_t input, const layer_part& part) {
  if (!part.inputs.whole()) return part.inputs;
  if (part.features.whole() || !keeps_features(l)) return {};
  return scaled(part.features, features_of(l.out.at(0)), features_of(l.in[input]));
}

feature_range made(const model_graph& g, tensor_ref what, feature_range features) {
  if (features.whole()) return {};
  const auto& l = g.layers[static_cast<std::size_t>(what.layer)];
  return scaled(features, features_of(l.out[0]), features_of(l.out[what.output]));
}

std::pair<feature_range, bool> common(feature_range a, feature_range b) {
  if (a.whole()) return {b, true};
  if (b.whole()) return {a, true};
  const feature_range r{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return {r, r.begin < r.end};
}

namespace {

// Rows [begin, end) of axis 0.
void take_rows(const param_spec& spec, feature_range rows, part_layer& p) {
  const auto width = spec.dims.count_from(1);
  auto dims = spec.dims;
  dims.set(0, rows.count());
  p.elements.push_back({rows.begin * width, rows.count() * width});
  p.params.push_back(dims);
}

// Columns [begin, end) of axis 1.
void take_columns(const param_spec& spec, feature_range columns, part_layer& p) {
  const auto inner = spec.dims.count_from(2), all = spec.dims.count_from(1);
  auto dims = spec.dims;
  dims.set(1, columns.count());
  p.elements.push_back({columns.begin * inner, dims.count(), columns.count() * inner, all});
  p.params.push_back(dims);
}

void take_all(const param_spec& spec, part_layer& p) {
  p.elements.push_back({0, spec.dims.count()});
  p.params.push_back(spec.dims);
}

void make_addend(const model_graph& g, const graph_layer& l, feature_range inputs, part_layer& p) {
  p.inputs = inputs;
  const auto all = features_of(l.in[0]);
  const bool first = inputs.begin == 0;
  if (auto own = l.maths->addend(inputs.begin, inputs.end, all, first)) p.as.maths = std::move(own);
  p.as.params.clear();
  const auto how = *adds_inputs(l);
  for (std::size_t i = 0; i < l.params.size(); ++i) {
    const auto& spec = g.params[l.params[i]].spec;
    const bool cut_here = i < how.params.size() && how.params[i] == distribution::split_1;
    if (!cut_here && !first) continue;
    p.as.params.push_back(l.params[i]);
    cut_here ? take_columns(spec, scaled(inputs, all, spec.dims[1]), p) : take_all(spec, p);
  }
}

}  // namespace

std::shared_ptr<const part_layer> make_part(const model_graph& g, const graph_layer& l, const layer_part& part) {
  if (part.features.whole() && part.inputs.whole()) return nullptr;
  auto p = std::make_shared<part_layer>();
  p->as = l;
  p->features = part.features;
  for (std::size_t i = 0; i < l.in.size(); ++i) {
    p->needs.push_back(needed(l, i, part));
    p->as.in[i] = cut(l.in[i], p->needs.back());
  }
  if (!part.inputs.whole()) {
    make_addend(g, l, part.inputs, *p);
    return p;
  }
  const auto all = features_of(l.out.at(0));
  if (auto own = l.maths->part(part.features.begin, part.features.end, all)) p->as.maths = std::move(own);
  p->as.out = p->as.maths->infer(p->as.in);
  for (auto q : l.params) {
    const auto& spec = g.params[q].spec;
    spec.slice_axis == 0 ? take_rows(spec, scaled(part.features, all, spec.dims[0]), *p) : take_all(spec, *p);
  }
  return p;
}

}  // namespace troupe
