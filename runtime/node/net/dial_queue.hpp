// Limits the peers that a node dials at the same time. Nodes that form a mesh dial all their peers
// at the same moment; if all TLS handshakes began at once, a machine with many nodes and few cores
// would complete none of them in time.
//
//   waits -> dials   in the order of add(), while fewer than `at_once` dial
//   dials -> over    the peer is up, or this attempt has failed
//
// An attempt that has taken `patience` no longer counts, so peers that do not answer delay the
// others by a bounded time. Accepted connections have no queue: strangers that begin handshakes
// could fill it and keep peers out. A value type; the caller passes the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::net {

template <class Key>
class dial_queue {
 public:
  using instant = std::chrono::steady_clock::time_point;

  dial_queue(std::size_t at_once, std::chrono::milliseconds patience) : at_once_(at_once), patience_(patience) {}

  void add(Key k) { waiting_.push_back(std::move(k)); }
  void over(const Key& k) {  // also of one that waits
    begun_.erase(k);
    std::erase(waiting_, k);
  }
  // Those that begin now, in order.
  std::vector<Key> begin(instant now) {
    std::vector<Key> out;
    auto dialling = static_cast<std::size_t>(
        std::count_if(begun_.begin(), begun_.end(), [&](const auto& b) { return now - b.second < patience_; }));
    for (; !waiting_.empty() && dialling < at_once_; ++dialling) {
      begun_[waiting_.front()] = now;
      out.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return out;
  }
  // When begin() returns one more although no attempt is over. Nullopt: none waits.
  std::optional<instant> next(instant now) const {
    if (waiting_.empty()) return std::nullopt;
    auto first = now + patience_;
    for (const auto& [k, at] : begun_)
      if (at + patience_ > now) first = std::min(first, at + patience_);
    return first;
  }

 private:
  const std::size_t at_once_;
  const std::chrono::milliseconds patience_;
  std::deque<Key> waiting_;
  std::map<Key, instant> begun_;
};

}  // namespace troupe::net
