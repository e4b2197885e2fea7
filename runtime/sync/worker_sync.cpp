#include "runtime/sync/worker_sync.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"
#include "runtime/messages/fits.hpp"
#include "runtime/reduce/fold.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_clocks_counted = 1024;  // the last bin holds the rest

}  // namespace

worker_sync::worker_sync(sync_config c, sums s) : config_(std::move(c)), sums_(s) {
  const auto& plan = *config_.plan;
  const auto range = plan.range_of(config_.worker), group = plan.group_of(config_.worker).range;
  cover_ = sums_ == sums::by_block ? cover(range.first - group.first, range.count, group.count)
                                   : std::vector<tree_node>{root_of(range.count)};
  layers_.resize(config_.graph->layers.size());
  open_.resize(layers_.size());
  tally_.reads.resize(layers_.size());
  blocks_of_.resize(config_.graph->params.size());
  for (std::uint32_t l = 0; l < layers_.size(); ++l) {
    layers_[l].done = layers_[l].handed = config_.first_step;
    layers_[l].delay = plan.delay_of(l);
  }
  for (auto r : plan.stages[config_.worker])
    for (std::size_t p = 0; p < plan[r].layers.size(); ++p) {
      auto& l = layers_[plan[r].layers[p]];
      l.stage = r;
      const auto* part = plan[r].parts.empty() ? nullptr : plan[r].parts[p].get();
      const auto& params = part ? part->as.params : layer_at(plan[r].layers[p]).params;
      for (std::size_t i = 0; i < params.size(); ++i)
        l.params.push_back(part ? part_of{params[i], part->elements[i].begin, part->params[i]}
                                : part_of{params[i], 0, config_.graph->params[params[i]].spec.dims});
    }
  if (plan.balances && has_loader()) clock_.layer = first_trained_layer();
  for (const auto& b : plan.blocks) {
    const auto& q = config_.graph->params[b.param];
    auto& l = layers_[q.layer];
    if (l.stage == no_role) continue;
    const auto here = std::find_if(l.params.begin(), l.params.end(), [&](const part_of& p) { return p.param == b.param; });
    if (here == l.params.end()) continue;
    // A range of columns belongs to one worker, whatever rows its blocks are cut into.
    const bool mine =
        b.run > 0 ? b.begin % b.stride == here->begin : b.begin >= here->begin && b.begin < here->begin + here->dims.count();
    if (!mine) continue;
    blocks_of_[b.param].push_back(b.id);
    l.blocks.push_back(b.id);
  }
}

role_id worker_sync::shard_of(std::uint32_t block) const {
  return config_.plan->shard_of(block_at(block), config_.plan->group_of(config_.worker).server_group);
}

void worker_sync::on(const envelope& e, time_point now, effects& out) {
  clock_.now = now;
  std::visit(overloaded{
                 [&](const gradient& g) { gradient_fits(e.h, g) ? take_gradient(e.h, g, out) : drop(drop_reason::malformed); },
                 [&](const weights& w) {
                   if (!block_fits(e.h.src, w.block, w.value)) return drop(drop_reason::malformed);
                   on_weights(e.h, w, out);
                 },
                 [&](const state& s) {
                   if (!block_fits(e.h.src, s.block, s.value) || s.rule.size() != config_.update->states().size() ||
                       !all_hold(s.rule, block_at(s.block).count, config_.type))
                     return drop(drop_reason::malformed);
                   on_state(e.h, s, out);
                 },
                 [&](const finished& f) {
                   if (!tasks_.finished(f.token, out)) drop(drop_reason::unrequested);
                 },
                 [&](const flush& f) {
                   if (f.round <= settling_) return drop(drop_reason::repeated);
                   settling_ = f.round;
                   flush_at_ = e.h.step + 1;  // 0: no flush in progress
                   settling_begun_ = false;
                 },
                 [&](const observe&) {
                   observation o;
                   for (std::size_t l = 0; l < tally_.reads.size(); ++l)
                     for (auto p : layer_at(static_cast<std::uint32_t>(l)).params)
                       if (auto& r = tally_.reads[l]; !r.empty()) o.histograms.emplace_back(config_.graph->params[p].full_name, r);
                   out.send({to(config_.coordinator), std::move(o)});
                 },
                 [&](const set_value& s) { apply_setting(config_, s); },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) { on_other(e, out); },
             },
             e.body);
  if (flush_at_ > 0) check_flushed(out);
}

// --- validation of messages against the plan

// Returns true if the block is one of this worker's, the value has its size, and the sender is its
// shard or the reducer that receives this worker's sums.
bool worker_sync::block_fits(role_id src, std::uint32_t block, const tensor& value) const {
  if (block >= config_.plan->blocks.size()) return false;
  const auto& b = block_at(block);
  if (src != shard_of(block) && src != config_.plan->push_to(config_.worker, b)) return false;
  const auto& mine = blocks_of_[b.param];
  return std::find(mine.begin(), mine.end(), block) != mine.end() && holds(value, b.count, config_.type);
}

// Returns true if the gradient comes from the layer's stage, for packets that are summed here and a
// step that the stage has weights for, with a tensor for every trained parameter and a statistic
// for every other one.
bool worker_sync::gradient_fits(const header& h, const gradient& g) const {
  if (g.layer >= layers_.size() || layers_[g.layer].stage == no_role || h.src != layers_[g.layer].stage) return false;
  const auto& l = layers_[g.layer];
  if (h.step > l.handed + l.delay) return false;
  const auto all = packets_of_sum();
  if (h.packet < all.first || !well_formed({h.packet - all.first, g.span}, all.count)) return false;
  const auto leaf = normal({h.packet - all.first, g.span}, all.count);
  const auto inside = [&](const tree_node& n) { return n.first <= leaf.first && leaf.first + leaf.span <= n.first + n.span; };
  if (std::none_of(cover_.begin(), cover_.end(), inside) || g.grads.size() != l.params.size()) return false;
  std::size_t statistics = 0;
  for (std::size_t i = 0; i < l.params.size(); ++i) {
    const auto& spec = config_.graph->params[l.params[i].param].spec;
    if (spec.trainable ? !fits(g.grads[i], l.params[i].dims, config_.type) : static_cast<bool>(g.grads[i])) return false;
    if (spec.trainable) continue;
    if (statistics >= g.stats.size() || !fits(g.stats[statistics], spec.dims, config_.type)) return false;
    ++statistics;
  }
  return statistics == g.stats.size();
}

// --- sums of gradients

// All packets whose gradients this worker sums or, with others, the packets of its group's step.
packet_range worker_sync::packets_of_sum() const {
  return sums_ == sums::whole ? config_.plan->range_of(config_.worker) : config_.plan->group_of(config_.worker).range;
}

bool worker_sync::over(std::uint32_t layer, std::uint64_t step) const {
  return step < layers_[layer].done || layers_[layer].ahead.count(step) > 0;
}

void worker_sync::take_gradient(const header& h, const gradient& g, effects& out) {
  if (over(g.layer, h.step)) return drop(drop_reason::outdated);
  const packet_of_layer from{g.layer, h.step, {h.packet - packets_of_sum().first, g.span}, g.lag};
  if (g.stats.empty()) return add_packet(from, std::make_shared<tensors>(g.grads), out);
  weigh(from, g, out);
}

// Multiplies running statistics by their weight in the sum and puts them in the places of the
// gradients that their parameters do not have.
void worker_sync::weigh(const packet_of_layer& from, const gradient& g, effects& out) {
  const auto& l = layer_at(g.layer);
  const auto weighed = std::make_shared<tensors>(g.grads);
  weighed->resize(l.params.size());
  std::size_t k = 0;
  for (std::size_t i = 0; i < l.params.size() && k < g.stats.size(); ++i)
    if (!config_.graph->params[l.params[i]].spec.trainable)
      (*weighed)[i] = tensor::declare(g.stats[k].dims(), g.stats[k].type()), ++k;
  tasks_.run([graph = config_.graph, layer = g.layer, weighed, stats = g.stats, packet = from.leaf.first,
              packets = packets_of_sum().count](
                 task_context& c) { weigh_statistics(c.dev, *graph, graph->layers[layer], stats, packet, packets, *weighed); },
             {0, 0, "weigh"},
             [this, from, weighed](effects& more) {
               over(from.layer, from.step) ? drop(drop_reason::outdated) : add_packet(from, weighed, more);
             },
             out);
}

// Adds a packet's gradient in the packet tree. A node of cover_ that becomes complete leaves when
// its additions have run; a packet that is the whole sum leaves at once.
void worker_sync::add_packet(const packet_of_layer& from, sum_ptr value, effects& out) {
  auto& l = layers_[from.layer];
  const auto packets = packets_of_sum().count;
  if (from.step == l.done && cover_.size() == 1 && normal(from.leaf, packets) == cover_[0]) {
    if (config_.plan->rule != weight_rule::drain) count_read(from.layer, from.lag);
    if (!out_of_turn(l)) l.done = from.step + 1;
    check_sum(from.layer, from.step, cover_[0], value, out);
    return step_left(from.layer, from.step, value, out);
  }
  auto& open = open_[from.layer].try_emplace(from.step, open_step{packet_tree<sum_ptr>(packets), 0}).first->second;
  additions due;
  const auto [node, fresh] =
      open.tree.add(from.leaf, std::move(value), cover_, [&](sum_ptr a, sum_ptr b) { return plan_addition(a, b, due); });
  if (!fresh) return drop(drop_reason::repeated);
  if (config_.plan->rule != weight_rule::drain) count_read(from.layer, from.lag);
  const bool leaves = std::find(cover_.begin(), cover_.end(), node) != cover_.end();
  const auto sum = leaves ? *open.tree.find(node) : sum_ptr{};
  if (due.empty()) {
    if (leaves) node_done(from.layer, from.step, node, sum, out);
    return;
  }
  const auto cost = cost_of(due);
  auto add = [due = std::move(due)](task_context& c) { run_additions(due, c.dev); };
  if (!leaves)
    return tasks_.run(
        std::move(add), cost, [](effects&) {}, out);
  tasks_.run(
      std::move(add), cost,
      [this, layer = from.layer, step = from.step, node = node, sum](effects& more) { node_done(layer, step, node, sum, more); },
      out);
}

void worker_sync::node_done(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) {
  if (over(layer, step)) return drop(drop_reason::outdated);  // discarded meanwhile (forget_sums)
  check_sum(layer, step, node, sum, out);
  const auto open = open_[layer].find(step);
  if (open == open_[layer].end() || ++open->second.left < cover_.size()) return;
  open_[layer].erase(open);
  step_left(layer, step, sum, out);
}

// With a delay, packets of several steps are in flight, and a later
// step may complete first.
void worker_sync::step_left(std::uint32_t layer, std::uint64_t step, const sum_ptr& sum, effects& out) {
  auto& l = layers_[layer];
  if (clock_.layer == layer && step == l.handed) tell_time(step, sum, out);
  if (!out_of_turn(l)) {
    invariant(step + 1 >= l.done, "steps of a layer are over in order");
    l.done = step + 1;
    return on_layer_done(layer, step, out);
  }
  l.ahead.insert(step);
  while (l.ahead.erase(l.done)) on_layer_done(layer, l.done++, out);
}

void worker_sync::forget_sums(std::uint32_t layer, std::uint64_t below) {
  auto& open = open_[layer];
  open.erase(open.begin(), open.lower_bound(below));
  layers_[layer].done = std::max(layers_[layer].done, below);
}

// --- weights

void worker_sync::hand(std::uint32_t layer, std::uint64_t version, tensors values, effects& out) {
  auto& l = layers_[layer];
  invariant(!l.begun || version > l.handed, "a stage gets versions in order");
  l.handed = version;
  l.begun = true;
  if (clock_.layer == layer) clock_.begun = clock_.now;
  auto h = to(l.stage);
  h.version = version;
  out.send({h, layer_weights{layer, std::move(values)}});
}

void worker_sync::count_read(std::uint32_t layer, std::uint64_t clocks_behind) {
  auto& r = tally_.reads[layer];
  const auto bin = std::min<std::uint64_t>(clocks_behind, max_clocks_counted - 1);
  if (r.size() <= bin) r.resize(bin + 1, 0);
  ++r[bin];
}

// --- flush

void worker_sync::check_flushed(effects& out) {
  const auto step = flush_at_ - 1;
  for (const auto& l : layers_)
    if (!l.blocks.empty() && (l.handed < step || !l.begun)) return;
  if (!std::exchange(settling_begun_, true)) on_settling(step, out);
  if (!quiet()) return;
  flush_at_ = 0;
  on_flush(step, out);
  const auto group = config_.plan->group_of(config_.worker).server_group;
  for (std::uint32_t s = 0; s < config_.plan->servers_per_group; ++s) {
    auto h = to(config_.plan->shards[group * config_.plan->servers_per_group + s]);
    h.step = step;
    out.send({h, ready{ready::what_of::flushed, settling_}});
  }
}

}  // namespace troupe
