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
  if (!well_formed({p.first, p.span}, plan().packets) || !covered({p.first, p.span})) return drop(drop_reason::malformed);
  auto& open = open_[p.block];
  if (open.size() >= max_open_steps && !open.count(h.step)) return drop(drop_reason::unexpected);
  auto& g = open.try_emplace(h.step, gathering{packet_tree<sum_ptr>(plan().packets), 0}).first->second;
  additions due;
  const auto [node, fresh] = g.tree.add({p.first, p.span}, std::make_shared<tensors>(1, p.sum), cover_,
                                        [&](sum_ptr x, sum_ptr y) { return plan_addition(x, y, due); });
  if (!fresh) return drop(drop_reason::repeated);
  const bool complete = std::find(cover_.begin(), cover_.end(), node) != cover_.end();
  const auto sum = complete ? *g.tree.find(node) : sum_ptr{};
  if (complete && ++g.left == cover_.size()) {
    open.erase(h.step);
    leaves(p.block, h.step);
  }
  add_and_send(p.block, h.step, node, sum, std::move(due), out);
}

void sum_reducer::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

std::size_t sum_reducer::open() const {
  std::size_t n = 0;
  for (const auto& steps : open_) n += steps.size();
  return n;
}

}  // namespace troupe
