#include "runtime/cluster/controller/event_log.hpp"

#include <algorithm>
#include <utility>

namespace troupe::control {

void event_log::store_ended(stored result) {
  if (stores_ > 0) --stores_;
  results_.push_back(std::move(result));
}

void event_log::give_up_stores() {
  if (std::exchange(stores_, 0) > 0) given_up_ = true;
}

std::optional<stored> event_log::take_result(kept_kind what) {
  const auto at = std::find_if(results_.begin(), results_.end(), [&](const stored& s) { return s.what == what; });
  if (at == results_.end()) return std::nullopt;
  auto result = std::move(*at);
  results_.erase(at);
  return result;
}

bool event_log::holds(const job_event& e) {
  if (stores_ == 0) return false;
  held_.push_back(e);
  return true;
}

std::optional<job_event> event_log::next_released() {
  if (held_.empty() || stores_ > 0 || last_) return std::nullopt;
  auto e = std::move(held_.front());
  held_.pop_front();
  return e;
}

void event_log::sent(job_event e) {
  const bool step = e.event.is<step_event>();
  auto& list = step ? steps_ : others_;
  list.push_back(std::move(e));
  if (list.size() > (step ? max_steps : max_others)) list.pop_front();
}

std::vector<const job_event*> event_log::history() const {
  std::vector<const job_event*> all;
  for (const auto* list : {&others_, &steps_})
    for (const auto& e : *list) all.push_back(&e);
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->event.step < b->event.step; });
  const auto final = [&](const job_event* e) { return last_ && e->event.what.index() == last_->event.what.index(); };
  std::stable_partition(all.begin(), all.end(), [&](auto* e) { return !final(e); });
  return all;
}

bool event_log::end_with(job_event e) {
  if (last_) return false;
  last_ = std::move(e);
  held_.clear();
  return true;
}

void event_log::disconnected(const std::string& client) {
  followers_.erase(client);
  notified_.erase(client);
}

}  // namespace troupe::control
