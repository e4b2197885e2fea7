#include "runtime/reduce/sum_reducer.hpp"

#include <algorithm>

#include "runtime/messages/fits.hpp"

namespace troupe {
namespace {

constexpr std::size_t most_open = 64;  // steps of one block: many more than are ever granted at once

}  // namespace

sum_reducer::sum_reducer(reducer_config c) : config_(std::move(c)) {
  const auto& p = *config_.plan;
  below_ = p.below(config_.self);
  const auto covered = p.covered(config_.self);
  cover_ = cover(covered.first, covered.count, p.packets);
  blocks_.resize(p.blocks.size());
  keeps_ = p.nodes.size() > 1;
  for (auto& b : blocks_) b.done = config_.first_step;
}

header sum_reducer::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void sum_reducer::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const push& p) { take_push(e.h, p, out); },
                 [&](const weights& w) { take_weights(e.h, w, out); },
                 [&](const fetch& f) { take_fetch(e.h, f, out); },
                 [&](const finished& f) {
                   const auto next = tasks_.extract(f.token);
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

bool sum_reducer::covered(tree_node n) const {
  n = normal(n, config_.plan->packets);
  return std::any_of(cover_.begin(), cover_.end(),
                     [&](const tree_node& c) { return c.first <= n.first && n.first + n.span <= c.first + c.span; });
}

void sum_reducer::take_push(const header& h, const push& p, effects& out) {
  if (p.block >= blocks_.size() || !well_formed({p.first, p.span}, config_.plan->packets) ||
      !holds(p.sum, config_.plan->blocks[p.block].count, config_.type) || !covered({p.first, p.span}) ||
      std::find(below_.begin(), below_.end(), h.src) == below_.end())
    return void(++dropped_);
  auto& b = blocks_[p.block];
  if (h.step < b.done || (b.open.size() >= most_open && !b.open.count(h.step))) return void(++dropped_);
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
  tasks_.emplace(++tokens_, waiting{p.block, h.step, node, sum});
  out.run([due = std::move(due)](task_context& c) { run_additions(due, c.dev); }, cost, tokens_);
}

void sum_reducer::sum_done(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out) {
  auto& b = blocks_[block];
  if (b.any && step < b.down) return void(++dropped_);  // made again, and everybody has it
  const sent_sum s{step, node, sum};
  send_up(block, s, out);
  if (keeps_) b.unanswered.push_back(s);
}

void sum_reducer::send_up(std::uint32_t block, const sent_sum& s, effects& out) const {
  auto h = to(config_.plan->above(config_.self, config_.plan->blocks[block]));
  h.step = s.step;
  out.send({h, push{block, s.node.first, s.node.span, s.sum}});
}

void sum_reducer::pass(role_id r, std::uint32_t block, std::uint64_t version, std::uint16_t flags, const tensor& value,
                       effects& out) const {
  auto h = to(r);
  h.version = version;
  h.flags = flags;
  out.send({h, weights{block, value}});
}

// Weights go down to the last of `below_` first: in a binomial tree that is the reducer with the deepest subtree. flag_join says that these weights
// answer our own question after a restart; it is taken off before they are passed on, since nobody below has asked.
void sum_reducer::take_weights(const header& h, const weights& w, effects& out) {
  if (w.block >= blocks_.size() || h.src != config_.plan->above(config_.self, config_.plan->blocks[w.block]) ||
      !holds(w.value, config_.plan->blocks[w.block].count, config_.type))
    return void(++dropped_);
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
}

// --- restarts

void sum_reducer::ask_neighbours(effects& out) const {
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) {
    out.send({to(config_.plan->above(config_.self, config_.plan->blocks[block])), fetch{block, true}});
    for (auto r : below_)
      if (reduces(r)) out.send({to(r), fetch{block, true}});
  }
}

// A neighbour has been restarted and has lost what we had sent it. A reducer below is sent the weights that went down last (where
// none have come yet, it gets the first ones with everybody else), the one above every sum that no weights have answered.
void sum_reducer::take_fetch(const header& h, const fetch& f, effects& out) {
  if (f.block >= blocks_.size() || !f.join) return void(++dropped_);
  const auto& b = blocks_[f.block];
  if (std::find(below_.begin(), below_.end(), h.src) != below_.end() && reduces(h.src)) {
    if (b.any) pass(h.src, f.block, b.down, 0, b.value, out);
  } else if (h.src == config_.plan->above(config_.self, config_.plan->blocks[f.block])) {
    for (const auto& s : b.unanswered) send_up(f.block, s, out);
  } else {
    ++dropped_;
  }
}

role_status sum_reducer::status() const {
  role_status s;
  for (const auto& b : blocks_) {
    s.step = std::max(s.step, b.done);
    s.queued += static_cast<std::uint32_t>(b.open.size());
  }
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  return s;
}

}  // namespace troupe
