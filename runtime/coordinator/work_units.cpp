#include "runtime/coordinator/work_units.hpp"

#include <algorithm>

#include "runtime/base/invariant.hpp"

namespace troupe {

work_unit_book::work_unit_book(std::uint64_t step, std::uint32_t packets, std::uint32_t size, std::uint32_t workers)
    : step_(step), has_(workers, 0) {
  for (std::uint32_t first = 0; first < packets; first += size) {
    all_.push_back({{step, first, std::min(size, packets - first)}, {}});
    undealt_.push_back(all_.size() - 1);
  }
  left_ = all_.size();
}

std::vector<work_unit_book::deal> work_unit_book::next(std::uint32_t ahead) {
  std::vector<deal> deals;
  const auto workers = static_cast<std::uint32_t>(has_.size());
  const auto give = [&](std::uint32_t w, std::size_t at) {
    all_[at].given.insert(w);
    ++has_[w];
    deals.push_back({w, all_[at].what});
  };
  for (std::uint32_t depth = 0; depth < ahead; ++depth)
    for (std::uint32_t w = 0; w < workers && !undealt_.empty(); ++w) {
      if (has_[w] > depth) continue;
      const auto at = undealt_.front();
      undealt_.pop_front();
      out_.push_back(at);
      give(w, at);
    }
  if (!undealt_.empty()) return deals;
  for (std::uint32_t w = 0; w < workers; ++w) {
    if (has_[w] > 0) continue;
    const auto oldest =
        std::find_if(out_.begin(), out_.end(), [&](std::size_t at) { return !all_[at].done && !all_[at].given.count(w); });
    if (oldest == out_.end()) continue;
    ++copies_;
    give(w, *oldest);
  }
  return deals;
}

bool work_unit_book::done(std::uint32_t worker, std::uint32_t first) {
  const auto e = std::find_if(all_.begin(), all_.end(), [&](const entry& x) { return x.what.first == first; });
  if (e == all_.end() || worker >= has_.size() || !e->given.count(worker) || e->done) return false;
  e->done = true;
  invariant(left_ > 0, "a work unit that is finished now was open");
  --left_;
  for (auto w : e->given) {
    invariant(has_[w] > 0, "a worker holds the unit that it was dealt");
    --has_[w];
  }
  return true;
}

void work_unit_book::finish() {
  for (auto& e : all_) e.done = true;
  has_.assign(has_.size(), 0);
  undealt_.clear();
  left_ = 0;
}

}  // namespace troupe
