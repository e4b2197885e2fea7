#include "runtime/coordinator/staleness_count.hpp"

namespace troupe {

bool staleness_count::ask() {
  if (answered_) return false;
  answered_.emplace();
  histograms_.clear();
  return true;
}

bool staleness_count::take(role_id worker, const observation& o) {
  if (!answered_ || !answered_->insert(worker).second) return false;
  for (const auto& [name, counts] : o.histograms) {
    auto& all = histograms_[name];
    if (all.size() < counts.size()) all.resize(counts.size(), 0);
    for (std::size_t i = 0; i < counts.size(); ++i) all[i] += counts[i];
  }
  if (answered_->size() < workers_.size()) return false;
  answered_.reset();
  return observed_ = true;
}

std::vector<staleness_entry> staleness_count::sums(const model_graph& g) const {
  std::vector<staleness_entry> list;
  for (const auto& p : g.params) {
    const auto at = histograms_.find(p.full_name);
    if (at == histograms_.end()) continue;
    staleness_entry entry{p.full_name, {}};
    for (std::size_t i = 0; i < at->second.size(); ++i)
      if (at->second[i] > 0) entry.reads[i] = at->second[i];
    if (!entry.reads.empty()) list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace troupe
