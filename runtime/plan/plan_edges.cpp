// Adds the edges between stages and from loaders to stages.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>
#include <utility>

#include "runtime/model/share.hpp"

namespace troupe {

namespace {

// The part of layer `l` that stage `s` hosts. Without placement its index is the worker's number.
const layer_part& part_of(const plan_draft& draft, std::uint32_t l, role_id s) {
  const auto& stages = draft.stage_of[l];
  auto me = static_cast<std::size_t>(draft.plan[s].worker);
  if (me >= stages.size() || stages[me] != s)
    me = static_cast<std::size_t>(std::find(stages.begin(), stages.end(), s) - stages.begin());
  return draft.where[l].parts[me];
}

std::uint64_t end_of(packet_range r) { return std::uint64_t{r.first} + r.count; }

// For a list in packet order: the range [first, last) of entries that may overlap `p`. With many
// workers this is a small part of the list.
template <class T, class F>
std::pair<std::size_t, std::size_t> around(const std::vector<T>& list, packet_range p, F packets) {
  const auto first = std::partition_point(list.begin(), list.end(), [&](const T& x) { return end_of(packets(x)) <= p.first; });
  const auto last = std::partition_point(first, list.end(), [&](const T& x) { return packets(x).first < end_of(p); });
  return {static_cast<std::size_t>(first - list.begin()), static_cast<std::size_t>(last - list.begin())};
}
std::pair<std::size_t, std::size_t> workers_around(const plan_draft& draft, packet_range p) {
  return around(draft.plan.ranges, p, [](const packet_range& r) { return r; });
}

plan_edge& edge(plan_draft& draft, tensor_ref what, role_id from, role_id to, feature_range region, feature_range need) {
  auto& plan = draft.plan;
  auto& stage = plan.roles[index_of(to)];
  for (auto i : stage.in_edges) {
    auto& e = plan.edges[i];
    if (e.what == what && e.from == from && e.region == region && e.need == need) return e;
  }
  auto& out = plan.roles[index_of(from)].out_edges;
  draft.within(plan.edges.size() + 1, max_edges, "edges", workers_at(draft.job));
  draft.within(std::max(out.size(), stage.in_edges.size()) + 1, max_role_edges, "edges at one role", workers_at(draft.job));
  plan_edge e;
  e.from = from;
  e.to = to;
  e.from_port = static_cast<std::uint16_t>(out.size());
  e.to_port = static_cast<std::uint16_t>(stage.in_edges.size());
  e.what = what;
  e.in_train = e.in_test = false;
  e.region = region;
  e.need = need;
  const auto number = static_cast<std::uint32_t>(plan.edges.size());
  out.push_back(number);
  stage.in_edges.push_back(number);
  plan.edges.push_back(e);
  return plan.edges.back();
}

// A loss or metric without an edge from the loader (e.g. one that compares a reconstruction with
// its source) receives the labels, or else the data, so that the loader's credit bounds the packets
// in flight. Otherwise the loader would run ahead, and two routes of different length that meet at
// the loss would fill it with incomplete packets.
void add_windows(plan_draft& draft, role_id s) {
  auto& plan = draft.plan;
  const tensor_ref what{from_data, static_cast<std::uint16_t>(draft.graph.has_labels() ? 1 : 0)};
  for (auto l : std::vector<std::uint32_t>(plan[s].layers)) {
    const auto& layer = draft.graph.layers[l];
    if (!reports(layer)) continue;
    const auto& part = part_of(draft, l, s);
    const auto [first, last] = workers_around(draft, part.packets);
    for (std::size_t w = first; w < last; ++w) {
      const auto packets = intersection(plan.ranges[w], part.packets);
      const auto seen = [&](std::uint32_t i) {
        const auto& e = plan.edges[i];
        return e.from == plan.loaders[w] && (e.in_train || !layer.in_train) && (e.in_test || !layer.in_test);
      };
      const auto& in = plan[s].in_edges;
      if (packets.count == 0 || std::any_of(in.begin(), in.end(), seen)) continue;
      auto& e = edge(draft, what, plan.loaders[w], s, {}, {});
      e.packets = plan.placed ? packets : packet_range{0, ~0u};
      e.credit = plan.in_flight();
      e.in_train = e.in_train || layer.in_train;
      e.in_test = e.in_test || layer.in_test;
    }
  }
}

// Adds one edge for each tensor, or part of one, that stage `s` reads from another role, in the
// order in which its layers read them.
void add_edges(plan_draft& draft, role_id s) {
  auto& plan = draft.plan;
  const auto layers = plan[s].layers;
  for (auto l : layers) {
    const auto& layer = draft.graph.layers[l];
    const auto& part = part_of(draft, l, s);
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      const auto what = layer.inputs[k];
      const auto need = needed(layer, k, part);
      if (what.layer < 0) {
        const auto [first, last] = workers_around(draft, part.packets);
        for (std::size_t w = first; w < last; ++w)
          add_edge(draft, what, plan.loaders[w], s, layer, k, intersection(plan.ranges[w], part.packets), {}, need);
        continue;
      }
      const auto& from = draft.where[static_cast<std::size_t>(what.layer)];
      auto some = std::pair(std::size_t{0}, from.parts.size());
      if (from.kind == split_kind::batch) some = around(from.parts, part.packets, [](const layer_part& p) { return p.packets; });
      for (auto j = some.first; j < some.second; ++j) {
        const auto packets = intersection(from.parts[j].packets, part.packets);
        if (packets.count == 0) continue;
        const auto producer = draft.stage_of[static_cast<std::size_t>(what.layer)][j];
        if (producer == s) continue;
        const auto [region, any] = common(made(draft.graph, what, from.parts[j].features), need);
        if (any) add_edge(draft, what, producer, s, layer, k, packets, region, need, from.addends());
      }
    }
  }
}

}  // namespace

void add_edge(plan_draft& draft, tensor_ref what, role_id from, role_id to, const graph_layer& taker, std::size_t input,
              packet_range packets, feature_range region, feature_range need, bool addend) {
  if (packets.count == 0) return;
  auto& e = edge(draft, what, from, to, region, need);
  e.addend = addend;
  const auto* producer = what.layer < 0 ? nullptr : &draft.graph.layers[static_cast<std::size_t>(what.layer)];
  e.packets = draft.plan.placed ? packets : packet_range{0, ~0u};  // if no layer is placed, a stage takes all packets of its loader
  e.credit = draft.plan[from].does().hosts_layers ? under_way(draft, packets) : draft.plan.in_flight();
  if (producer && producer->spec && !is_parameter(draft.graph, what) && draft.plan[from].node != draft.plan[to].node)
    e.wire = wire_format_of(producer->spec->wire);
  e.grad_back = e.grad_back || taker.grad_in_wanted[input];
  e.in_train = e.in_train || (taker.in_train && (!producer || producer->in_train));
  e.in_test = e.in_test || (taker.in_test && (!producer || producer->in_test));
}

void add_all_edges(plan_draft& draft) {
  auto& plan = draft.plan;
  const auto roles = plan.roles.size();
  for (std::size_t r = 0; r < roles; ++r)
    if (plan.roles[r].does().hosts_layers) {
      add_edges(draft, plan.roles[r].id);
      add_windows(draft, plan.roles[r].id);
    }
}

}  // namespace troupe
