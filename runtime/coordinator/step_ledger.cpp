#include "runtime/coordinator/step_ledger.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/invariant.hpp"

namespace troupe {

step_ledger::step_ledger(const job_plan& plan, std::uint32_t stages, std::uint64_t first)
    : ranges_(plan.ranges),
      packets_(plan.packets),
      stages_(stages),
      completed_(first),
      entries_(plan.ranges.size(), entry{first, first}),
      max_granted_(entries_.empty() ? 0 : first),
      max_done_(max_granted_),
      sum_done_(first * entries_.size()) {}

bool step_ledger::grant(std::uint32_t worker, std::uint64_t until) {
  if (until <= entries_[worker].granted) return false;
  entries_[worker].granted = until;
  max_granted_ = std::max(max_granted_, until);
  return true;
}

report_sheet& step_ledger::sheet(std::uint64_t step) {
  const auto at = sheets_.find(step);
  if (at != sheets_.end()) return at->second;
  auto& s = sheets_.emplace(step, report_sheet(packets_, stages_, ranges_)).first->second;
  for (std::uint32_t w = 0; w < entries_.size(); ++w)
    if (s.complete_of(w)) note_change(w);
  return s;
}

bool step_ledger::take(std::uint64_t step, std::uint32_t packet, std::uint32_t first_layer, report r) {
  if (!wants(step)) return false;
  auto& s = sheet(step);
  if (!s.take(packet, first_layer, std::move(r))) return false;
  if (const auto worker = s.owner_of(packet)) note_change(*worker);
  return true;
}

void step_ledger::note_change(std::uint32_t worker) {
  if (!std::exchange(entries_[worker].changed, true)) changed_.push_back(worker);
}

std::vector<step_ledger::complete_step> step_ledger::take_complete() {
  std::vector<complete_step> list;
  for (auto first = sheets_.begin(); first != sheets_.end() && first->first == completed_ && first->second.complete();) {
    list.push_back({first->first, std::move(first->second)});
    first = sheets_.erase(first);
    ++completed_;
  }
  invariant(completed_ <= max_granted(), "only granted steps are complete");
  if (!list.empty())
    for (std::uint32_t w = 0; w < entries_.size(); ++w) count_done(w);
  for (auto w : std::exchange(changed_, {})) {
    entries_[w].changed = false;
    count_done(w);
  }
  return list;
}

void step_ledger::count_done(std::uint32_t worker) {
  auto& e = entries_[worker];
  auto done = std::max(e.done, completed_);
  for (auto at = sheets_.find(done); at != sheets_.end() && at->second.complete_of(worker); at = sheets_.find(done)) ++done;
  if (done == e.done) return;
  sum_done_ += done - e.done;
  max_done_ = std::max(max_done_, done);
  e.done = done;
  if (!std::exchange(e.risen, true)) risen_.push_back(worker);
}

std::vector<std::uint32_t> step_ledger::take_risen() {
  auto list = std::exchange(risen_, {});
  for (auto w : list) entries_[w].risen = false;
  std::sort(list.begin(), list.end());
  return list;
}

std::uint64_t step_ledger::least_done(const std::function<bool(std::uint32_t)>& of) const {
  std::uint64_t least = ~0ull;
  for (std::uint32_t w = 0; w < entries_.size(); ++w)
    if (of(w)) least = std::min(least, entries_[w].done);
  return least;
}

}  // namespace troupe
