#include "runtime/cluster/view/events.hpp"

#include <algorithm>
#include <chrono>

namespace troupe {

// Microseconds: 32 bits of them recur after 71 minutes, which no client waits for a command.
repl_events::repl_events()
    : log_(static_cast<std::uint32_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count())) {}

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
