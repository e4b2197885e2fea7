#include "runtime/reduce/passing_reducer.hpp"

#include <algorithm>

#include "runtime/messages/fits.hpp"

namespace troupe {

passing_reducer::passing_reducer(reducer_config c) : config_(std::move(c)) {
  blocks_.resize(plan().blocks.size());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    blocks_[b].below = plan().below(self(), plan().blocks[b]);
    blocks_[b].done = config_.first_step;
  }
}

header passing_reducer::to(role_id r) const {
  header h;
  h.job = config_.job;
  h.src = config_.self;
  h.dst = r;
  return h;
}

void passing_reducer::on(const envelope& e, time_point, effects& out) {
  std::visit(overloaded{
                 [&](const push& p) { take_push(e.h, p, out); },
                 [&](const weights& w) { take_weights(e.h, w, out); },
                 [&](const finished& f) { added(f.token, out); },
                 [&](const halt&) { out.stop(); },
                 [&](const auto&) { drop(drop_reason::unexpected); },
             },
             e.body);
}

void passing_reducer::take_push(const header& h, const push& p, effects& out) {
  if (p.block >= blocks_.size()) return drop(drop_reason::misaddressed);
  if (!holds(p.sum, plan().blocks[p.block].count, config_.type)) return drop(drop_reason::malformed);
  const auto& b = blocks_[p.block];
  if (std::find(b.below.begin(), b.below.end(), h.src) == b.below.end()) return drop(drop_reason::misaddressed);
  if (h.step < b.done) return drop(drop_reason::outdated);
  add(h, p, out);
}

void passing_reducer::leaves(std::uint32_t block, std::uint64_t step) {
  auto& b = blocks_[block];
  b.done = std::max(b.done, step + 1);
}

void passing_reducer::add_and_send(std::uint32_t block, std::uint64_t step, tree_node node, const sum_ptr& sum, additions due,
                                   effects& out) {
  if (due.empty()) {
    if (sum) send_sum(block, step, node, (*sum)[0], out);
    return;
  }
  const auto cost = cost_of(due);
  run_and_send(
      block, step, node, sum, [due = std::move(due)](task_context& c) { run_additions(due, c.dev); }, cost, out);
}

void passing_reducer::run_and_send(std::uint32_t block, std::uint64_t step, tree_node node, const sum_ptr& sum, task_work work,
                                   task_cost cost, effects& out) {
  tasks_.emplace(++tokens_, waiting{block, step, node, sum});
  out.run(std::move(work), cost, tokens_);
}

void passing_reducer::added(std::uint64_t token, effects& out) {
  const auto next = tasks_.extract(token);
  if (next.empty()) return drop(drop_reason::unrequested);
  if (!next.mapped().sum) return;
  const auto& w = next.mapped();
  send_sum(w.block, w.step, w.node, (*w.sum)[0], out);
}

void passing_reducer::send_sum(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out) {
  const auto& b = blocks_[block];
  if (b.any && step < b.down) return drop(drop_reason::outdated);  // a repeated sum that the weights contain already
  auto h = to(above(block));
  h.step = step;
  out.send({h, push{block, node.first, node.span, sum}});
}

void passing_reducer::pass(role_id r, std::uint32_t block, std::uint64_t version, const tensor& value, effects& out) const {
  auto h = to(r);
  h.version = version;
  out.send({h, weights{block, value}});
}

// Weights go down to the last of `below` first: in a binomial tree that is the reducer with the
// deepest subtree, in a ring the next reducer on their way.
void passing_reducer::take_weights(const header& h, const weights& w, effects& out) {
  if (w.block >= blocks_.size() || h.src != above(w.block)) return drop(drop_reason::misaddressed);
  if (!holds(w.value, plan().blocks[w.block].count, config_.type)) return drop(drop_reason::malformed);
  auto& b = blocks_[w.block];
  if (b.any && h.version <= b.down) return drop(drop_reason::outdated);
  b.any = true;
  b.down = h.version;
  b.done = std::max(b.done, h.version);
  forget(w.block, h.version);
  for (auto r = b.below.rbegin(); r != b.below.rend(); ++r) pass(*r, w.block, h.version, w.value, out);
}

role_status passing_reducer::status() const {
  role_status s;
  for (const auto& b : blocks_) s.step = std::max(s.step, b.done);
  s.queued = static_cast<std::uint32_t>(open());
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  return s;
}

}  // namespace troupe
