#include "runtime/loader/packet_agenda.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/invariant.hpp"

namespace troupe {

packet_agenda::packet_agenda(std::shared_ptr<const job_plan> plan, role_id loader, std::uint64_t first_step, bool dynamic)
    : plan_(std::move(plan)), dynamic_(dynamic), next_step_(first_step), granted_(first_step) {
  const auto& me = (*plan_)[loader];
  tester_ = me.tester;
  worker_ = me.worker;
  if (!tester_) range_ = plan_->ranges[me.worker];
}

// A tester ignores grants.
void packet_agenda::grant_until(std::uint64_t step) {
  if (!tester_) granted_ = std::max(granted_, step);
}

bool packet_agenda::deal(const work_unit& p) {
  if (!dynamic_ || p.step < work_unit_step_) return false;
  if (p.step > work_unit_step_ || work_unit_taken_.empty()) work_unit_taken_.assign(plan_->packets, false);
  work_unit_step_ = p.step;
  bool fresh = false;
  const auto end = std::min<std::uint64_t>(std::uint64_t{p.first} + p.count, plan_->packets);
  for (std::uint64_t k = p.first; k < end; ++k) {
    if (work_unit_taken_[k]) continue;
    work_unit_taken_[k] = true;
    work_units_.push_back({p.step, static_cast<std::uint32_t>(k)});
    fresh = true;
  }
  return fresh;
}

void packet_agenda::begin_round(std::uint64_t round, std::uint64_t version, std::uint32_t packets) {
  if (has_begun_round(round)) return;
  last_round_ = round;
  rounds_.push_back({round, version, 0, packets});
  if (!evaluates(0)) advance(rounds_.back());
}

std::optional<packet_agenda::training> packet_agenda::next_training() {
  if (dynamic_) {
    if (work_units_.empty()) return std::nullopt;
    const auto p = work_units_.front();
    work_units_.pop_front();
    next_step_ = p.step;
    return p;
  }
  if (tester_ || next_step_ >= granted_) return std::nullopt;
  invariant(next_in_range_ < range_.count, "a worker with packets makes them in turn");
  const training p{next_step_, range_.first + next_in_range_};
  if (++next_in_range_ == range_.count) {
    next_in_range_ = 0;
    ++next_step_;
  }
  return p;
}

std::optional<packet_agenda::evaluation> packet_agenda::next_evaluation() {
  while (!rounds_.empty() && rounds_.front().packet >= rounds_.front().packets) rounds_.pop_front();
  if (rounds_.empty() || (!dynamic_ && !tester_ && rounds_.front().version > next_step_)) return std::nullopt;
  const auto p = rounds_.front();
  advance(rounds_.front());
  return p;
}

bool packet_agenda::evaluates(std::uint32_t packet) const { return tester_ || plan_->eval_worker(packet) == worker_; }

void packet_agenda::advance(evaluation& round) const {
  do ++round.packet;
  while (round.packet < round.packets && !evaluates(round.packet));
}

void packet_agenda::clear() {
  granted_ = next_step_;
  work_units_.clear();
  rounds_.clear();
}

}  // namespace troupe
