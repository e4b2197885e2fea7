#include "actors/view/events.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void repl_events::put(std::uint32_t job, const event_effect& e, std::vector<std::pair<std::string, std::string>> texts) {
  std::lock_guard guard(lock_);
  auto& list = e.kind == "step" ? steps_ : e.kind == "histogram" ? histograms_ : others_;
  list.push_back({++count_, job, e, std::move(texts)});
  if (list.size() > (e.kind == "histogram" ? kept_histograms : kept)) list.pop_front();
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
