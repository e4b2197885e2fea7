// What a worker reports about itself: its step, how far its gradients are, and what it waits for.

#include <algorithm>

#include "runtime/sync/worker_sync.hpp"

namespace troupe {

constexpr std::size_t max_clocks_published = 64;  // the last bin holds the rest

role_status worker_sync::status() const {
  role_status s;
  std::uint64_t last = ~0ull;
  for (const auto& l : layers_) {
    if (l.blocks.empty()) continue;
    s.version = std::max(s.version, l.handed);
    last = std::min(last, l.handed);
  }
  s.step = last == ~0ull ? config_.first_step : last;
  for (const auto& o : open_) s.queued += static_cast<std::uint32_t>(o.size());
  s.in_flight = static_cast<std::uint32_t>(tasks_.size());
  // The layers of the oldest version hold up the others: their stages compute, or all their
  // gradients have been sent and the next weights are missing.
  const auto computes = [&](const layer_sync& l) {
    return !l.blocks.empty() && l.handed == last && l.begun && l.done <= l.handed + l.delay;
  };
  const bool begun = std::any_of(layers_.begin(), layers_.end(), [](const auto& l) { return l.begun; });
  if (last != ~0ull && std::none_of(layers_.begin(), layers_.end(), computes))
    s.wait(wait_kind::weights, "weights of version " + std::to_string(last + (begun ? 1 : 0)));
  for (const auto& r : tally_.reads) {
    if (const auto n = std::min(r.size(), max_clocks_published); s.staleness.size() < n) s.staleness.resize(n, 0);
    for (std::size_t i = 0; i < r.size(); ++i) s.staleness[std::min(i, max_clocks_published - 1)] += r[i];
  }
  s.pushed = tally_.pushed;
  return s;
}

}  // namespace troupe
