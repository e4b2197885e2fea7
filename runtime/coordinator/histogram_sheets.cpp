#include "runtime/coordinator/histogram_sheets.hpp"

#include <algorithm>
#include <string>

namespace troupe {

bool histogram_sheets::due(std::uint64_t progress) {
  if (every_ == 0 || progress / every_ <= done_ / every_) return false;
  done_ = progress;
  return true;
}

std::optional<drop_reason> histogram_sheets::take(const header& h, const histogram& got, bool lockstep) {
  if (got.block >= plan_->blocks.size()) return drop_reason::misaddressed;
  const auto& block = plan_->blocks[got.block];
  if (plan_->shard_of(block, 0) != h.src) return drop_reason::misaddressed;
  const bool by_interval = lockstep && every_ > 0 && h.step > 0 && h.step % every_ == 0;
  if (!requested_.contains(h.step) && !(by_interval && h.step > done_)) return drop_reason::unrequested;
  const auto count = static_cast<std::uint64_t>(block.count);
  if (!sound(got.weight, count) || got.gradient.size() > 1 || (!got.gradient.empty() && !sound(got.gradient[0], count)))
    return drop_reason::malformed;
  if (!open_.contains(h.step) && open_.size() >= most_open) {
    if (h.step < open_.begin()->first) return drop_reason::outdated;
    requested_.erase(open_.begin()->first);
    open_.erase(open_.begin());
  }
  auto& s = open_[h.step];
  if (s.taken.empty()) {
    s.taken.resize(plan_->blocks.size(), false);
    s.missing = plan_->blocks.size();
    s.weight.resize(graph_->params.size());
    s.gradient.resize(graph_->params.size());
    s.with_gradient.resize(graph_->params.size(), 0);
  }
  if (s.taken[got.block]) return drop_reason::repeated;
  s.taken[got.block] = true;
  --s.missing;
  add(s.weight[block.param], got.weight);
  if (got.gradient.empty()) return std::nullopt;
  add(s.gradient[block.param], got.gradient[0]);
  ++s.with_gradient[block.param];
  return std::nullopt;
}

std::vector<event_effect> histogram_sheets::complete() {
  std::vector<event_effect> events;
  for (auto at = open_.begin(); at != open_.end();) {
    const auto& [step, s] = *at;
    if (s.missing > 0) {
      ++at;
      continue;
    }
    std::vector<std::size_t> blocks(graph_->params.size(), 0);
    for (const auto& b : plan_->blocks) ++blocks[b.param];
    for (std::size_t p = 0; p < graph_->params.size(); ++p) {
      const auto& name = graph_->params[p].full_name;
      events.push_back({step, histogram_event{false, name, s.weight[p]}});
      if (s.with_gradient[p] == blocks[p]) events.push_back({step, histogram_event{true, name, s.gradient[p]}});
    }
    if (every_ > 0 && step % every_ == 0) done_ = std::max(done_, step);
    requested_.erase(step);
    at = open_.erase(at);
  }
  return events;
}

}  // namespace troupe
