#include "runtime/sync/clocked.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "runtime/sync/looking.hpp"

namespace troupe {
namespace {

// Puts a layer's parameters together: copies each block to its place and adds the own sums that the
// block lacks.
struct assembly {
  struct copy {
    std::size_t param;
    std::int64_t begin;  // offset in this worker's part of the parameter
    tensor from;
  };
  struct overlay {
    std::size_t param;
    std::int64_t begin, count;
    double scale;
    sum_ptr sum;
  };
  std::vector<copy> copies;
  std::vector<overlay> own;

  task_cost cost(dtype type) const {
    task_cost sum{0, 0, "assemble"};
    for (const auto& c : copies) sum.bytes += 2.0 * static_cast<double>(c.from.bytes());
    for (const auto& o : own) sum.bytes += 3.0 * static_cast<double>(o.count) * static_cast<double>(size_of(type));
    return sum;
  }

  void run(tensors& values, device& d) const {
    for (const auto& part : copies) {
      auto& whole = values[part.param];
      whole.back(d);
      auto slice = whole.slice(part.begin, {part.from.count()});
      d.copy(part.from, slice);
    }
    for (const auto& o : own) {
      auto slice = values[o.param].slice(o.begin, {o.count});
      d.axpy(o.scale, (*o.sum)[o.param].slice(o.begin, {o.count}), slice);
    }
  }
};

}  // namespace

clocked_worker::clocked_worker(sync_config c, clock_policy p)
    : worker_sync(std::move(c), sums::by_block),
      policy_(p),
      cache_(config_.plan->blocks.size()),
      own_(layers_.size()),
      looking_(layers_.size(), 0),
      assembling_(layers_.size(), false) {
  if (!policy_.work_units) return;
  const auto packets = config_.plan->packets;
  cover_.clear();
  for (std::uint32_t first = 0; first < packets; first += policy_.work_unit)
    cover_.push_back(normal({first, policy_.work_unit}, packets));
}

void clocked_worker::on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) {
  push_sum(layer, step, node, *sum, out);
  if (policy_.staleness > 0) keep_own(layer, {step, node, sum}, out);
  if (policy_.work_units) count_work_unit(step, node, out);
}

// A sum that the shards will skip must not be laid over the weights. The layer waits for the check,
// because the worker reads its own writes.
void clocked_worker::keep_own(std::uint32_t layer, own_sum own, effects& out) {
  own_[layer].push_back(own);
  if (config_.max_skipped == 0) return;
  ++looking_[layer];
  const auto bad = std::make_shared<std::vector<std::uint32_t>>();
  std::vector<std::uint32_t> params;
  task_cost cost{0, 0, "look"};
  for (const auto& p : layers_[layer].params) params.push_back(p.param);
  for (const auto& t : *own.sum) cost.bytes += t ? static_cast<double>(t.bytes()) : 0.0;
  tasks_.run([sum = own.sum, bad, params](task_context& c) { look_at_sum(c.dev, params, *sum, bad); }, cost,
             [this, layer, step = own.step, node = own.node, bad](effects& more) {
               --looking_[layer];
               if (!bad->empty())
                 std::erase_if(own_[layer], [&](const own_sum& o) { return o.step == step && o.node.first == node.first; });
               try_hand(layer, more);
             },
             out);
}

// Reports that all steps below the oldest version of any block are over. Weights of version t
// contain all work units of the steps before t, including those whose worker failed before it
// reported them.
void clocked_worker::tell_step_over(effects& out) {
  std::uint64_t all = ~0ull;
  for (const auto& l : layers_)
    for (auto id : l.blocks) all = std::min(all, cache_[id].value ? cache_[id].version : 0);
  if (all == ~0ull || all <= over_) return;
  over_ = all;
  auto h = to(config_.coordinator);
  h.step = all;
  out.send({h, ready{ready::what_of::work_unit}});
}

void clocked_worker::count_work_unit(std::uint64_t step, tree_node node, effects& out) {
  auto [at, fresh] = work_unit_left_.try_emplace({step, node.first}, 0);
  if (fresh)
    at->second =
        static_cast<std::size_t>(std::count_if(layers_.begin(), layers_.end(), [](const auto& l) { return !l.blocks.empty(); }));
  if (--at->second > 0) return;
  work_unit_left_.erase(at);
  auto h = to(config_.coordinator);
  h.step = step;
  out.send({h, ready{ready::what_of::work_unit, 0, node.first, node.span}});
}

void clocked_worker::on_layer_done(std::uint32_t layer, std::uint64_t step, effects& out) {
  if (policy_.pull) ask(layer, step + 1, out);
  try_hand(layer, out);
}

// Fetches the blocks that step `step` reads; header.version is the oldest version that suffices. A
// block whose version suffices but is below `step` is fetched too, so that weights do not become
// older than necessary.
void clocked_worker::ask(std::uint32_t layer, std::uint64_t step, effects& out) {
  for (auto id : layers_[layer].blocks) {
    auto& c = cache_[id];
    if (c.asked || (c.value && c.version >= step)) continue;
    c.asked = true;
    auto h = to(shard_of(id));
    h.step = step;
    h.version = least_version(step);
    out.send({h, fetch{id}});
  }
}

void clocked_worker::on_weights(const header& h, const weights& w, effects& out) {
  auto& c = cache_[w.block];
  const auto layer = config_.graph->params[block_at(w.block).param].layer;
  if (policy_.pull) c.asked = false;
  if (delayed(layer) && h.version >= layers_[layer].handed && !(c.value && h.version <= c.version)) {
    c.later.try_emplace(h.version, w.value);
    hand_next(layer, out);
  } else if (c.value && h.version <= c.version) {
    drop(drop_reason::outdated);
  } else if ((layers_[layer].begun || assembling_[layer]) && exact() && h.version > layers_[layer].done) {
    c.later.try_emplace(h.version, w.value);
  } else {
    c.version = h.version;
    c.value = w.value;
    try_hand(layer, out);
  }
  // The answer may be too old for the next step, even if it was dropped as outdated: fetch again.
  auto& l = layers_[layer];
  const auto next = l.begun ? l.handed + 1 : l.handed;
  if (policy_.pull && l.done >= next && c.version < least_version(next)) ask(layer, next, out);
}

// Moves each block to its newest kept version that the layer may use now (at most `done`).
void clocked_worker::take_later(std::uint32_t layer) {
  for (auto id : layers_[layer].blocks) {
    auto& c = cache_[id];
    auto end = c.later.upper_bound(layers_[layer].done);
    if (end == c.later.begin()) continue;
    const auto newest = std::prev(end);
    if (newest->first > c.version) c.version = newest->first, c.value = newest->second;
    c.later.erase(c.later.begin(), end);
  }
}

void clocked_worker::try_hand(std::uint32_t layer, effects& out) {
  auto& l = layers_[layer];
  if (assembling_[layer] || looking_[layer] > 0 || l.blocks.empty()) return;
  if (delayed(layer)) return hand_next(layer, out);
  if (exact()) take_later(layer);
  std::uint64_t least = ~0ull, most = 0;
  for (auto id : l.blocks) {
    if (!cache_[id].value) return;
    least = std::min(least, cache_[id].version);
    most = std::max(most, cache_[id].version);
  }
  if (policy_.staleness == 0) {
    if (least != most || (l.begun && least <= l.handed)) return;
    forget_sums(layer, least);
    if (config_.plan->rule == weight_rule::drain) count_read(layer, 0);  // with other rules every gradient carries its lag
    assemble(layer, least, out);
    if (policy_.work_units) tell_step_over(out);
    return;
  }
  const auto next = l.begun ? l.handed + 1 : l.handed;
  if ((l.begun && l.done < next) || least < least_version(next)) return;
  count_read(layer, next > least ? next - least : 0);
  assemble(layer, next, out);
}

// Hands out every version in turn, as soon as all blocks have it: a stage that runs ahead of its
// updates needs each of them.
void clocked_worker::hand_next(std::uint32_t layer, effects& out) {
  auto& l = layers_[layer];
  while (!assembling_[layer]) {
    const auto next = l.begun ? l.handed + 1 : l.handed;
    for (auto id : l.blocks)
      if (!cache_[id].later.count(next)) return;
    for (auto id : l.blocks) {
      auto& c = cache_[id];
      c.version = next;
      c.value = std::move(c.later.extract(next).mapped());
    }
    if (config_.plan->rule == weight_rule::drain) count_read(layer, 0);
    assemble(layer, next, out);
  }
}

// A parameter that is one block and lacks no own sum is handed out as it was received. A task puts
// the others together.
void clocked_worker::assemble(std::uint32_t layer, std::uint64_t step, effects& out) {
  auto values = std::make_shared<tensors>();
  values->reserve(layers_[layer].params.size());
  assembly parts;
  const auto& params = layers_[layer].params;
  std::uint64_t least = ~0ull;
  for (std::size_t p = 0; p < params.size(); ++p) {
    const auto& dims = params[p].dims;
    const auto& known = config_.graph->params[params[p].param];
    const bool steps = known.spec.trainable && !known.frozen;  // else a running statistic, which only shards update, or frozen
    values->push_back(tensor::declare(dims, config_.type));
    for (auto id : blocks_of(params[p].param)) {
      const auto& c = cache_[id];
      const auto& b = block_at(id);
      const auto begin = b.within(params[p].begin);
      least = std::min(least, c.version);
      const bool lacks =
          steps && std::any_of(own_[layer].begin(), own_[layer].end(), [&](const own_sum& o) { return o.step >= c.version; });
      if (b.count == dims.count() && !lacks)
        values->back() = c.value.reshaped(dims);
      else
        parts.copies.push_back({p, begin, c.value});
      for (const auto& o : own_[layer])
        if (steps && o.step >= c.version && p < o.sum->size() && (*o.sum)[p])
          parts.own.push_back({p, begin, b.count, -rule_step_at(config_, params[p].param, o.step).lr / packets_of_group(), o.sum});
    }
  }
  std::erase_if(own_[layer], [&](const own_sum& o) { return o.step < least; });
  if (parts.copies.empty()) return hand(layer, step, std::move(*values), out);
  assembling_[layer] = true;
  const auto cost = parts.cost(config_.type);
  tasks_.run([values, parts = std::move(parts)](task_context& c) { parts.run(*values, c.dev); }, cost,
             [this, layer, step, values](effects& more) {
               assembling_[layer] = false;
               hand(layer, step, std::move(*values), more);
               try_hand(layer, more);
             },
             out);
}

}  // namespace troupe
