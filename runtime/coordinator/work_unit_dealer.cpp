#include "runtime/coordinator/work_unit_dealer.hpp"

namespace troupe {

std::optional<std::uint64_t> work_unit_dealer::next_step(std::uint64_t completed) const {
  if (!now_) return completed;
  return now_->complete() ? std::optional(now_->step() + 1) : std::nullopt;
}

void work_unit_dealer::open(std::uint64_t step) { now_.emplace(step, packets_, size_, workers_); }

std::vector<work_unit_book::deal> work_unit_dealer::deal() { return now_ ? now_->next() : std::vector<work_unit_book::deal>{}; }

bool work_unit_dealer::done(std::uint32_t worker, std::uint64_t step, std::uint32_t first) {
  return now_ && now_->step() == step && now_->done(worker, first);
}

void work_unit_dealer::over(std::uint64_t version) {
  if (now_ && now_->step() < version) now_->finish();
}

}  // namespace troupe
