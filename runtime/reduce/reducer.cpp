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
  keeps_ = p.nodes.size() > 1;
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
                 [&](const fetch& f) { take_fetch(e.h, f, out); },
                 [&](const finished& f) {
                   const auto next = jobs_.extract(f.token);
                   if (!next.empty() && next.mapped().sum)
                     sum_done(next.mapped().block, next.mapped().step, next.mapped().node, (*next.mapped().sum)[0], out);
                 },
                 [&](const start&) {
                   if (config_.incarnation > 0) ask_neighbours(out);
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
    if (leaves) sum_done(p.block, h.step, node, (*sum)[0], out);
    return;
  }
  const auto cost = cost_of(due);
  jobs_.emplace(++tokens_, waiting{p.block, h.step, node, sum});
  out.run([due = std::move(due)](job_context& c) { run_additions(due, c.dev); }, cost, tokens_);
}

role_id tree_reducer::above(std::uint32_t block) const {
  const auto& p = *config_.plan;
  return config_.rank == 0 ? p.blocks[block].shard : p.reducers[tree_parent(config_.rank, p.arity)];
}

void tree_reducer::sum_done(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out) {
  auto& b = blocks_[block];
  if (b.any && step < b.down) return void(++dropped_);  // made again, and everybody has it
  const sent_sum s{step, node, sum};
  send_up(block, s, out);
  if (keeps_) b.unanswered.push_back(s);
}

void tree_reducer::send_up(std::uint32_t block, const sent_sum& s, effects& out) const {
  auto h = to(above(block));
  h.step = s.step;
  out.send({h, push{block, s.node.first, s.node.span, s.sum}});
}

void tree_reducer::pass(role_id r, std::uint32_t block, std::uint64_t version, std::uint16_t flags, const tensor& value,
                        effects& out) const {
  auto h = to(r);
  h.version = version;
  h.flags = flags;
  out.send({h, weights{block, value}});
}

// Weights go down to the reducer with the deepest subtree first, which is the last of `below_`. flag_join says that these weights
// answer our own question after a restart; it is taken off before they are passed on, since nobody below has asked.
void tree_reducer::take_weights(const header& h, const weights& w, effects& out) {
  if (w.block >= blocks_.size()) return void(++dropped_);
  auto& b = blocks_[w.block];
  if (b.any && h.version <= b.down) return void(++dropped_);
  b.any = true;
  b.down = h.version;
  b.done = std::max(b.done, h.version);
  b.open.erase(b.open.begin(), b.open.lower_bound(h.version));
  std::erase_if(b.unanswered, [&](const sent_sum& s) { return s.step < h.version; });
  if (keeps_) b.value = w.value;
  const auto flags = static_cast<std::uint16_t>(h.flags & ~flag_join);
  for (auto r = below_.rbegin(); r != below_.rend(); ++r) pass(*r, w.block, h.version, flags, w.value, out);
  pass(config_.plan->workers[config_.rank], w.block, h.version, flags, w.value, out);
}

// --- restarts

void tree_reducer::ask_neighbours(effects& out) const {
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    out.send({to(above(block)), fetch{block, true}});
    for (auto r : below_) out.send({to(r), fetch{block, true}});
  }
}

// A neighbour has been restarted and has lost what we had sent it. A reducer below is sent the weights that went down last (where
// none have come yet, it gets the first ones with everybody else), the one above every sum that no weights have answered.
void tree_reducer::take_fetch(const header& h, const fetch& f, effects& out) {
  if (f.block >= blocks_.size() || !f.join) return void(++dropped_);
  const auto& b = blocks_[f.block];
  if (std::find(below_.begin(), below_.end(), h.src) != below_.end()) {
    if (b.any) pass(h.src, f.block, b.down, 0, b.value, out);
  } else if (h.src == above(f.block)) {
    for (const auto& s : b.unanswered) send_up(f.block, s, out);
  } else {
    ++dropped_;
  }
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
