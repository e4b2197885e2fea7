#include "runtime/coordinator/work_unit_dealer.hpp"

#include <utility>

namespace troupe {

std::optional<std::uint64_t> work_unit_dealer::next_step(std::uint64_t completed) const {
  if (!now_) return completed;
  return now_->complete() ? std::optional(now_->step() + 1) : std::nullopt;
}

void work_unit_dealer::open(std::uint64_t step) {
  before_ = std::move(now_);
  now_.emplace(step, packets_, size_, workers_);
}

std::vector<work_unit_book::deal> work_unit_dealer::deal() { return now_ ? now_->next() : std::vector<work_unit_book::deal>{}; }

bool work_unit_dealer::done(std::uint32_t worker, std::uint64_t step, std::uint32_t first) {
  return now_ && now_->step() == step && now_->done(worker, first);
}

bool work_unit_dealer::over(std::uint64_t version) {
  if (!now_ || now_->step() >= version) return false;
  now_->finish();
  return lost_one();
}

std::vector<work_unit> work_unit_dealer::lost(std::uint32_t worker, std::uint64_t step) {
  std::vector<work_unit> again;
  if (!now_) return again;
  if (before_ && before_->step() >= step) again = before_->done_by(worker);
  now_->lost(worker);
  lost_in_ = now_->step();
  return again;
}

bool work_unit_dealer::has_done(std::uint64_t step, std::uint32_t packet) const {
  return now_ && (step < now_->step() || (step == now_->step() && now_->has_done(packet)));
}

}  // namespace troupe
