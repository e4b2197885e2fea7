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
      entries_(plan.ranges.size(), entry{first, first, first}),
      lives_(plan.workers.size(), 0) {}

bool step_ledger::grant(std::uint32_t worker, std::uint64_t until) {
  if (until <= entries_[worker].granted) return false;
  entries_[worker].granted = until;
  return true;
}

std::uint64_t step_ledger::max_granted() const {
  std::uint64_t most = 0;
  for (const auto& r : entries_) most = std::max(most, r.granted);
  return most;
}

std::uint64_t step_ledger::max_done() const {
  std::uint64_t most = 0;
  for (const auto& r : entries_) most = std::max(most, r.done);
  return most;
}

std::uint64_t step_ledger::mean_done() const {
  std::uint64_t sum = 0;
  for (const auto& r : entries_) sum += r.done;
  return sum / entries_.size();
}

report_sheet& step_ledger::sheet(std::uint64_t step) {
  const auto at = sheets_.find(step);
  if (at != sheets_.end()) return at->second;
  auto& s = sheets_.emplace(step, report_sheet(packets_, stages_, ranges_)).first->second;
  for (std::uint32_t w = 0; w < entries_.size(); ++w)
    if (step < entries_[w].joined_at) s.give_up_worker(w);
  return s;
}

bool step_ledger::take(std::uint64_t step, std::uint32_t packet, std::uint32_t first_layer, report r) {
  return wants(step) && sheet(step).take(packet, first_layer, std::move(r));
}

std::vector<step_ledger::complete_step> step_ledger::take_complete() {
  std::vector<complete_step> list;
  for (auto first = sheets_.begin(); first != sheets_.end() && first->first == completed_ && first->second.complete();) {
    list.push_back({first->first, std::move(first->second)});
    first = sheets_.erase(first);
    ++completed_;
  }
  invariant(completed_ <= max_granted(), "only granted steps are complete");
  for (std::uint32_t w = 0; w < entries_.size(); ++w) {
    auto& done = entries_[w].done;
    done = std::max(done, completed_);
    for (auto at = sheets_.find(done); at != sheets_.end() && at->second.complete_of(w); at = sheets_.find(done)) ++done;
  }
  return list;
}

std::uint64_t step_ledger::least_done(const std::function<bool(std::uint32_t)>& of) const {
  std::uint64_t least = ~0ull;
  for (std::uint32_t w = 0; w < entries_.size(); ++w)
    if (of(w)) least = std::min(least, entries_[w].done);
  return least;
}

bool step_ledger::meet(std::uint32_t worker, std::uint32_t incarnation) {
  return incarnation > 0 && incarnation == std::exchange(lives_[worker], incarnation);
}

void step_ledger::give_up_before(std::uint32_t worker, std::uint64_t step) {
  entries_[worker].joined_at = std::max(entries_[worker].joined_at, step);
  for (auto& [s, of] : sheets_)
    if (s < step) of.give_up_worker(worker);
}

void step_ledger::give_up_packets(const std::function<bool(std::uint64_t step, std::uint32_t packet)>& which) {
  for (auto& [step, of] : sheets_)
    for (std::uint32_t p = 0; p < of.packets(); ++p)
      if (which(step, p)) of.give_up_packet(p);
}

void step_ledger::open_below(std::uint64_t step) {
  for (auto s = completed_; s < step; ++s) sheet(s);
}

}  // namespace troupe
