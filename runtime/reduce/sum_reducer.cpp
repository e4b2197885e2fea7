#include "runtime/reduce/sum_reducer.hpp"

#include <algorithm>

namespace troupe {

sum_reducer::sum_reducer(reducer_config c) : passing_reducer(std::move(c)) {
  const auto covered = plan().covered(self());
  cover_ = cover(covered.first, covered.count, plan().packets);
  open_.resize(plan().blocks.size());
}

bool sum_reducer::covered(tree_node n) const {
  n = normal(n, plan().packets);
  return std::any_of(cover_.begin(), cover_.end(),
                     [&](const tree_node& c) { return c.first <= n.first && n.first + n.span <= c.first + c.span; });
}

void sum_reducer::add(const header& h, const push& p, effects& out) {
  if (!well_formed({p.first, p.span}, plan().packets) || !covered({p.first, p.span})) return drop();
  auto& open = open_[p.block];
  if (open.size() >= most_open_steps && !open.count(h.step)) return drop();
  auto& g = open.try_emplace(h.step, gathering{packet_tree<sum_ptr>(plan().packets), 0}).first->second;
  additions due;
  const auto [node, fresh] = g.tree.add({p.first, p.span}, std::make_shared<tensors>(1, p.sum), cover_,
                                        [&](sum_ptr x, sum_ptr y) { return plan_addition(x, y, due); });
  if (!fresh) return drop();
  const bool complete = std::find(cover_.begin(), cover_.end(), node) != cover_.end();
  const auto sum = complete ? *g.tree.find(node) : sum_ptr{};
  if (complete && ++g.left == cover_.size()) {
    open.erase(h.step);
    leaves(p.block, h.step);
  }
  if (due.empty()) {
    if (complete) send_sum(p.block, h.step, node, (*sum)[0], out);
    return;
  }
  const auto cost = cost_of(due);
  tasks_.emplace(++tokens_, waiting{p.block, h.step, node, sum});
  out.run([due = std::move(due)](task_context& c) { run_additions(due, c.dev); }, cost, tokens_);
}

void sum_reducer::added(std::uint64_t token, effects& out) {
  const auto next = tasks_.extract(token);
  if (next.empty() || !next.mapped().sum) return;
  const auto& w = next.mapped();
  send_sum(w.block, w.step, w.node, (*w.sum)[0], out);
}

void sum_reducer::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

role_status sum_reducer::status() const {
  role_status s;
  s.step = steps_done();
  for (const auto& open : open_) s.queued += static_cast<std::uint32_t>(open.size());
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  return s;
}

}  // namespace troupe
