#include "runtime/sim/channel.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

constexpr unsigned most_doublings = 6;

}  // namespace

frame channel_sender::send(envelope e, time_point now) {
  if (kept_.empty()) last_progress_ = now;
  const auto sequence = first_ + kept_.size();
  kept_.push_back({e, now, false});
  return {sequence, std::move(e)};
}

void channel_sender::acknowledged(std::uint64_t count, time_point now) {
  if (count <= first_) return;
  const auto n = std::min<std::uint64_t>(count - first_, kept_.size());
  for (std::uint64_t i = 0; i < n; ++i) {
    const auto& k = kept_.front();
    // The last frame that this acknowledges was answered just now; a repeated one says nothing about the round trip.
    if (i + 1 == n && !k.again) {
      const auto trip = now - k.sent;
      varies_ = smooth_ == duration{} ? trip / 2 : (3 * varies_ + std::chrono::abs(trip - smooth_)) / 4;
      smooth_ = smooth_ == duration{} ? trip : (7 * smooth_ + trip) / 8;
      patience_ = std::max(least_, smooth_ + 4 * varies_);
    }
    kept_.pop_front();
  }
  first_ += n;
  in_vain_ = 0;
  last_progress_ = now;
}

std::optional<time_point> channel_sender::due() const {
  if (kept_.empty()) return std::nullopt;
  return std::max(last_progress_, kept_.front().sent) + patience_ * (1 << std::min(in_vain_, most_doublings));
}

std::vector<frame> channel_sender::overdue(time_point now) {
  std::vector<frame> again;
  const auto when = due();
  if (!when || now < *when) return again;
  ++in_vain_;
  for (std::size_t i = 0; i < kept_.size() && again.size() < most_again; ++i) {
    auto& k = kept_[i];
    if (now - k.sent < patience_) continue;  // was sent again a moment ago
    k.sent = now;
    k.again = true;
    if (k.e.h.attempt < 255) ++k.e.h.attempt;
    again.push_back({first_ + i, k.e});
  }
  resent_ += again.size();
  return again;
}

std::uint64_t channel_receiver::take(frame f, std::vector<envelope>& out) {
  if (f.sequence < next_ || early_.count(f.sequence)) {
    ++duplicates_;
    return next_;
  }
  if (f.sequence > next_) {
    early_.emplace(f.sequence, std::move(f.e));
    ++held_;
    return next_;
  }
  out.push_back(std::move(f.e));
  ++next_;
  for (auto i = early_.begin(); i != early_.end() && i->first == next_; i = early_.erase(i), ++next_)
    out.push_back(std::move(i->second));
  return next_;
}

}  // namespace troupe::sim
