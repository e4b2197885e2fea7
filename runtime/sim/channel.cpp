#include "runtime/sim/channel.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

constexpr unsigned max_doublings = 6;

}  // namespace

frame channel_sender::send(envelope e, time_point now) {
  if (kept_.empty()) last_progress_ = now;
  const auto sequence = first_ + kept_.size();
  kept_.push_back({e, {now}, false});
  return {sequence, 0, std::move(e)};
}

void channel_sender::acknowledged(const acknowledgement& a, time_point now) {
  if (a.answers >= first_ && a.answers - first_ < kept_.size()) {
    auto& k = kept_[a.answers - first_];
    if (!k.there && a.attempt < k.sent.size()) learn(now - k.sent[a.attempt]);
    k.there = true;
  }
  if (a.count <= first_) return;
  const auto n = std::min<std::uint64_t>(a.count - first_, kept_.size());
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(n));
  first_ += n;
  in_vain_ = 0;
  last_progress_ = now;
}

void channel_sender::learn(duration trip) {
  varies_ = smooth_ == duration{} ? trip / 2 : (3 * varies_ + std::chrono::abs(trip - smooth_)) / 4;
  smooth_ = smooth_ == duration{} ? trip : (7 * smooth_ + trip) / 8;
  patience_ = std::max(least_, smooth_ + 4 * varies_);
}

std::optional<time_point> channel_sender::due() const {
  if (kept_.empty()) return std::nullopt;
  return std::max(last_progress_, kept_.front().sent.back()) + patience_ * (1 << std::min(in_vain_, max_doublings));
}

std::vector<frame> channel_sender::overdue(time_point now) {
  std::vector<frame> again;
  const auto when = due();
  if (!when || now < *when) return again;
  ++in_vain_;
  for (std::size_t i = 0; i < kept_.size() && again.size() < max_again; ++i) {
    auto& k = kept_[i];
    if (k.there || now - k.sent.back() < patience_) continue;
    k.sent.push_back(now);
    if (k.e.h.attempt < 255) ++k.e.h.attempt;
    again.push_back({first_ + i, static_cast<std::uint32_t>(k.sent.size() - 1), k.e});
  }
  resent_ += again.size();
  return again;
}

acknowledgement channel_receiver::take(frame f, std::vector<envelope>& out) {
  const auto answers = f.sequence;
  if (f.sequence < next_ || early_.count(f.sequence)) {
    ++duplicates_;
  } else if (f.sequence > next_) {
    early_.emplace(f.sequence, std::move(f.e));
    ++held_;
  } else {
    out.push_back(std::move(f.e));
    ++next_;
    for (auto i = early_.begin(); i != early_.end() && i->first == next_; i = early_.erase(i), ++next_)
      out.push_back(std::move(i->second));
  }
  return {next_, answers, f.attempt};
}

}  // namespace troupe::sim
