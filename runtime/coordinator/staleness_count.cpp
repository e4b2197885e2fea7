#include "runtime/coordinator/staleness_count.hpp"

#include "runtime/coordinator/staleness.hpp"

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

scalars staleness_count::sums(const model_graph& g) const {
  scalars list;
  for (const auto& p : g.params) {
    const auto at = histograms_.find(p.full_name);
    if (at == histograms_.end()) continue;
    for (std::size_t i = 0; i < at->second.size(); ++i)
      if (at->second[i] > 0) list.emplace_back(staleness_key(p.full_name, i), static_cast<double>(at->second[i]));
  }
  return list;
}

}  // namespace troupe
