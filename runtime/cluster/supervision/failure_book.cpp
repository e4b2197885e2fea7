#include "runtime/cluster/supervision/failure_book.hpp"

namespace troupe {

std::optional<std::string> failure_book::note(const std::string& why, instant now) {
  if (max_ && count_ >= *max_)
    return *max_ == 0 ? why : why + "; the job's limit, max_failures = " + std::to_string(*max_) + ", is reached";
  while (!recent_.empty() && now - recent_.front().first > span) recent_.pop_front();
  if (recent_.size() >= in_span)
    return why + "; job ended: more than 3 node failures within 30 s, the first: " + recent_.front().second;
  recent_.emplace_back(now, why);
  ++count_;
  return std::nullopt;
}

void failure_book::clear_of(const std::string& node) {
  std::erase_if(suspects_, [&](const auto& s) { return s.first == node || s.second.by == node; });
}

void failure_book::suspect(const std::string& node, const std::string& by, const std::string& why, instant now) {
  suspects_.try_emplace(node, suspicion{now + grace, node, by, why});
}

std::optional<failure_book::suspicion> failure_book::overdue(instant now) const {
  for (const auto& [node, s] : suspects_)
    if (now > s.until) return s;
  return std::nullopt;
}

}  // namespace troupe
