#include "actors/supervision/loss_book.hpp"

namespace troupe {

std::optional<std::string> loss_book::note(const std::string& why, instant now) {
  if (most_ && count_ >= *most_) return *most_ == 0 ? why : why + "; the job may survive " + std::to_string(*most_) + " losses";
  while (!recent_.empty() && now - recent_.front().first > span) recent_.pop_front();
  if (recent_.size() >= in_span) return why + "; given up after 3 losses within 30 s, the first: " + recent_.front().second;
  recent_.emplace_back(now, why);
  ++count_;
  return std::nullopt;
}

void loss_book::clear_of(const std::string& node) {
  std::erase_if(suspects_, [&](const auto& s) { return s.first == node || s.second.by == node; });
}

void loss_book::suspect(const std::string& node, const std::string& by, const std::string& why, instant now) {
  suspects_.try_emplace(node, suspicion{now + grace, node, by, why});
}

std::optional<loss_book::suspicion> loss_book::overdue(instant now) const {
  for (const auto& [node, s] : suspects_)
    if (now > s.until) return s;
  return std::nullopt;
}

}  // namespace troupe
