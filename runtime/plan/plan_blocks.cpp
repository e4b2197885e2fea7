// Cuts parameters into blocks and assigns them to shards.
#include "runtime/plan/plan_draft.hpp"

#include <algorithm>
#include <utility>

#include "ops/device_descriptors.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

// Elements. A cut inside a parameter is aligned to a cache line of f32, and to the groups over
// which norms are summed (reduce/norm.hpp).
constexpr std::int64_t cut_multiple = 16;

// The elements of parameter `p` on each worker that hosts a placed layer.
struct own_elements {
  std::uint32_t taker;
  element_range here;
};
std::vector<own_elements> placed_elements(const plan_draft& draft, std::uint32_t p) {
  const auto& param = draft.graph.params[p];
  std::vector<own_elements> list;
  if (!draft.where[param.layer].placed) return list;
  for (auto s : draft.stage_of[param.layer]) {
    const auto& r = draft.plan[s];
    const auto at = static_cast<std::size_t>(std::find(r.layers.begin(), r.layers.end(), param.layer) - r.layers.begin());
    if (const auto here = elements_of(draft.graph, p, r.parts[at].get()); here.count > 0) list.push_back({r.worker, here});
  }
  return list;
}
// Returns true if every element is on exactly one worker of a placed layer: the block is then owned
// by a shard on the worker's node. Parameters that several workers have (a batch split, a parameter
// that is not sliced) are dealt over all shards.
bool apart(const std::vector<own_elements>& placements) {
  return placements.size() == 1 || (placements.size() > 1 && placements[0].here.begin != placements[1].here.begin);
}
bool dealt(const plan_draft& draft, std::uint32_t p) {
  return draft.graph.params[p].spec.trainable && !apart(placed_elements(draft, p));
}

// The shard next to the worker of a placed layer: on its node, and on its device if the node has
// others.
role_id shard_of_host(plan_draft& draft, role_id worker) {
  const auto node = draft.plan[worker].node;
  const auto named = draft.named_devices.find(worker);
  const bool any = named == draft.named_devices.end() || different_devices(draft.nodes[node].devices).size() < 2;
  return colocated_shard(draft, node, any ? any_device : static_cast<std::int32_t>(named->second));
}

// The end of each shard's range of the dealt elements, as (parameter, element in it). The last
// shard's range ends after the last parameter.
std::vector<std::pair<std::uint32_t, std::int64_t>> cuts(const plan_draft& draft) {
  const auto count_of = [&](std::uint32_t p) { return dealt(draft, p) ? draft.graph.params[p].spec.dims.count() : 0; };
  std::int64_t total = 0;
  for (std::uint32_t p = 0; p < draft.graph.params.size(); ++p) total += count_of(p);
  std::vector<std::pair<std::uint32_t, std::int64_t>> ends;
  const auto n = static_cast<std::int64_t>(draft.shards);
  std::uint32_t p = 0;
  std::int64_t before = 0;  // elements of parameters before p
  for (std::int64_t s = 1; s < n; ++s) {
    const auto target = total / n * s + total % n * s / n;
    for (; p < draft.graph.params.size(); ++p) {
      const auto count = count_of(p);
      if (before + count > target) break;
      before += count;
    }
    const auto room = p < draft.graph.params.size() ? draft.graph.params[p].spec.dims.count() : 0;
    ends.emplace_back(p, std::min((target - before + cut_multiple / 2) / cut_multiple * cut_multiple, room));
  }
  ends.emplace_back(static_cast<std::uint32_t>(draft.graph.params.size()), 0);
  return ends;
}

// [topology] max_block in elements, or less if a block's value and all states of the rule, which
// are collected and restored in one message, would exceed `most` bytes.
std::int64_t block_elements(const plan_draft& draft, std::int64_t most) {
  const auto each = static_cast<std::int64_t>(size_of(draft.job.parameter_type()));
  const auto fits = (most - static_cast<std::int64_t>(wire_overhead)) / (each * (1 + std::int64_t{draft.plan.rule_states}));
  return std::max(std::min(draft.job.topology.max_block / each, fits) / cut_multiple * cut_multiple, cut_multiple);
}

// Cuts blocks of more than `most` elements: contiguous ones anywhere, columns between rows.
std::vector<param_block> in_pieces(const plan_draft& draft, const std::vector<param_block>& whole, std::int64_t most) {
  const auto& t = draft.job.topology;
  std::vector<param_block> pieces;
  for (const auto& b : whole) {
    const auto step = b.run > 0 ? std::max<std::int64_t>(most / b.run, 1) * b.run : most;
    draft.within(pieces.size() + static_cast<std::size_t>((b.count + step - 1) / step), max_blocks, "blocks of parameters",
                 position_of(t.key_at, "max_block", t.at));
    for (std::int64_t done = 0; done < b.count; done += step) {
      auto piece = b;
      piece.begin += b.run > 0 ? done / b.run * b.stride : done;
      piece.count = std::min(step, b.count - done);
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace

void cut_parameters(plan_draft& draft, std::int64_t max_message) {
  auto& plan = draft.plan;
  plan.block_elements = block_elements(draft, max_message);
  const auto ends = cuts(draft);
  std::size_t s = 0;
  std::map<std::uint32_t, role_id> first_of_layer;
  std::vector<param_block> buffers;
  for (std::uint32_t p = 0; p < draft.graph.params.size(); ++p) {
    const auto& param = draft.graph.params[p];
    const auto placements = placed_elements(draft, p);
    std::vector<std::uint32_t> takers;
    for (const auto& h : placements) takers.push_back(h.taker);
    if (apart(placements)) {
      for (const auto& [taker, here] : placements)
        plan.blocks.push_back(
            {0, p, here.begin, here.count, shard_of_host(draft, plan.workers[taker]), {taker}, here.run, here.stride});
      continue;
    }
    if (!param.spec.trainable) {
      buffers.push_back({0, p, 0, param.spec.dims.count(), plan.shards[s], takers});
      continue;
    }
    for (std::int64_t begin = 0; begin < param.spec.dims.count();) {
      while (ends[s] <= std::pair(p, begin)) ++s;
      const auto end = ends[s].first == p ? ends[s].second : param.spec.dims.count();
      plan.blocks.push_back({0, p, begin, end - begin, plan.shards[s], takers});
      first_of_layer.try_emplace(param.layer, plan.shards[s]);
      begin = end;
    }
  }
  for (auto& b : buffers) {
    if (auto i = first_of_layer.find(draft.graph.params[b.param].layer); i != first_of_layer.end()) b.shard = i->second;
    plan.blocks.push_back(b);
  }
  plan.blocks = in_pieces(draft, plan.blocks, plan.block_elements);
  std::sort(plan.blocks.begin(), plan.blocks.end(),
            [](const param_block& a, const param_block& b) { return std::pair(a.param, a.begin) < std::pair(b.param, b.begin); });
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) plan.blocks[i].id = static_cast<std::uint32_t>(i);
}

}  // namespace troupe
