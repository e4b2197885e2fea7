#include "actors/view/events.hpp"

#include <algorithm>

namespace troupe {

void repl_events::put(std::uint32_t job, const event_effect& e) {
  std::lock_guard guard(lock_);
  const bool histogram = e.is<histogram_event>();
  auto& list = e.is<step_event>() ? steps_ : histogram ? histograms_ : others_;
  list.push_back({++count_, job, e});
  if (list.size() > (histogram ? kept_histograms : kept)) list.pop_front();
}

std::uint64_t repl_events::last() const {
  std::lock_guard guard(lock_);
  return count_;
}

std::vector<repl_event> repl_events::after(std::uint64_t number, std::uint32_t job) const {
  std::vector<repl_event> found;
  {
    std::lock_guard guard(lock_);
    for (const auto* list : {&steps_, &histograms_, &others_})
      for (auto at = list->rbegin(); at != list->rend() && at->number > number; ++at)
        if (at->job == job) found.push_back(*at);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  return found;
}

}  // namespace troupe
