#include "runtime/reduce/reducer.hpp"

#include <algorithm>

namespace troupe {

tree_reducer::tree_reducer(reducer_config c) : config_(std::move(c)) {
  const auto& p = *config_.plan;
  const auto all = static_cast<std::uint32_t>(p.workers.size());
  const auto end = config_.rank + tree_reach(config_.rank, p.arity, all);
  packet_range covered = p.ranges[config_.rank];
  for (auto r = config_.rank + 1; r < end; ++r) {
    covered.count += p.ranges[r].count;
    if (tree_parent(r, p.arity) == config_.rank) below_.push_back(p.reducers[r]);
  }
  cover_ = cover(covered.first, covered.count, p.packets);
  blocks_.resize(p.blocks.size());
  for (auto& b : blocks_) b.done = config_.first_step;
}

header tree_reducer::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void tree_reducer::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const push& p) { take_push(e.h, p, out); },
                 [&](const weights& w) { take_weights(e.h, w, out); },
                 [&](const finished& f) {
                   const auto next = jobs_.extract(f.token);
                   if (!next.empty() && next.mapped().sum)
                     send_up(next.mapped().block, next.mapped().step, next.mapped().node, (*next.mapped().sum)[0], out);
                 },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) { ++dropped_; },
             },
             e.body);
}

void tree_reducer::take_push(const header& h, const push& p, effects& out) {
  if (p.block >= blocks_.size() || !well_formed({p.first, p.span}, config_.plan->packets)) return void(++dropped_);
  auto& b = blocks_[p.block];
  if (h.step < b.done) return void(++dropped_);
  auto& g = b.open.try_emplace(h.step, gathering{packet_tree<sum_ptr>(config_.plan->packets), 0}).first->second;
  additions due;
  const auto [node, fresh] = g.tree.add({p.first, p.span}, std::make_shared<tensors>(1, p.sum), cover_,
                                        [&](sum_ptr x, sum_ptr y) { return plan_addition(x, y, due); });
  if (!fresh) return void(++dropped_);
  const bool leaves = std::find(cover_.begin(), cover_.end(), node) != cover_.end();
  const auto sum = leaves ? *g.tree.find(node) : sum_ptr{};
  if (leaves && ++g.left == cover_.size()) {
    b.open.erase(h.step);
    b.done = std::max(b.done, h.step + 1);
  }
  if (due.empty()) {
    if (leaves) send_up(p.block, h.step, node, (*sum)[0], out);
    return;
  }
  const auto cost = cost_of(due);
  jobs_.emplace(++tokens_, waiting{p.block, h.step, node, sum});
  out.run([due = std::move(due)](job_context& c) { run_additions(due, c.dev); }, cost, tokens_);
}

void tree_reducer::send_up(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out) const {
  const auto& p = *config_.plan;
  auto h = to(config_.rank == 0 ? p.blocks[block].shard : p.reducers[tree_parent(config_.rank, p.arity)]);
  h.step = step;
  out.send({h, push{block, node.first, node.span, sum}});
}

// The farthest first: the subtree below the last is the deepest.
void tree_reducer::take_weights(const header& h, const weights& w, effects& out) {
  if (w.block >= blocks_.size()) return void(++dropped_);
  auto& b = blocks_[w.block];
  if (b.any && h.version <= b.down) return void(++dropped_);
  b.any = true;
  b.down = h.version;
  const auto pass = [&](role_id r) {
    auto on = to(r);
    on.version = h.version;
    on.flags = h.flags;
    out.send({on, w});
  };
  for (auto r = below_.rbegin(); r != below_.rend(); ++r) pass(*r);
  pass(config_.plan->workers[config_.rank]);
}

role_status tree_reducer::status() const {
  role_status s;
  for (const auto& b : blocks_) {
    s.step = std::max(s.step, b.done);
    s.queued += static_cast<std::uint32_t>(b.open.size());
  }
  s.in_flight = static_cast<std::uint32_t>(jobs_.size());
  return s;
}

}  // namespace troupe
