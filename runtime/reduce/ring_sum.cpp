#include "runtime/reduce/ring_sum.hpp"

#include <algorithm>

namespace troupe {

ring_sum::ring_sum(reducer_config c) : passing_reducer(std::move(c)) {
  const auto range = plan().range_of(plan()[self()].worker);
  cover_ = cover(range.first, range.count, plan().packets);
  open_.resize(plan().blocks.size());
}

// The place of a push in `g`; null if it has none.
sum_ptr* ring_sum::place_of(gathering& g, const header& h, const push& p) const {
  if (h.src != below(p.block).front()) return &g.before;
  if (!well_formed({p.first, p.span}, plan().packets)) return nullptr;
  const auto at = std::find(cover_.begin(), cover_.end(), normal({p.first, p.span}, plan().packets));
  if (at == cover_.end()) return nullptr;
  g.ours.resize(cover_.size());
  return &g.ours[static_cast<std::size_t>(at - cover_.begin())];
}

bool ring_sum::complete(const gathering& g, std::uint32_t block) const {
  return !g.ours.empty() && std::find(g.ours.begin(), g.ours.end(), nullptr) == g.ours.end() && (begins(block) || g.before);
}

void ring_sum::add(const header& h, const push& p, effects& out) {
  auto& open = open_[p.block];
  if (open.size() >= max_open_steps && !open.count(h.step)) return drop(drop_reason::unexpected);
  auto& g = open[h.step];
  auto* place = place_of(g, h, p);
  if (!place) return drop(drop_reason::malformed);
  if (*place) return drop(drop_reason::repeated);
  *place = std::make_shared<tensors>(1, p.sum);
  if (!complete(g, p.block)) return;
  additions due;
  auto sum = g.ours.front();
  for (std::size_t i = 1; i < g.ours.size(); ++i) sum = plan_addition(sum, g.ours[i], due);
  if (g.before) sum = plan_addition(g.before, sum, due);
  open.erase(h.step);
  leaves(p.block, h.step);
  add_and_send(p.block, h.step, root_of(plan().packets), sum, std::move(due), out);
}

void ring_sum::forget(std::uint32_t block, std::uint64_t before) {
  auto& open = open_[block];
  open.erase(open.begin(), open.lower_bound(before));
}

std::size_t ring_sum::open() const {
  std::size_t n = 0;
  for (const auto& steps : open_) n += steps.size();
  return n;
}

}  // namespace troupe
