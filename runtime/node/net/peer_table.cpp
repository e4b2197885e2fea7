#include "runtime/node/net/peer_table.hpp"

#include <algorithm>
#include <utility>

#include "runtime/access/names.hpp"

namespace troupe::net {

peer_table::link peer_table::current(std::string_view peer) const {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(peer);
  return at == peers_.end() ? nullptr : at->second.up;
}

bool peer_table::knows_later(const hello& h) const {
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(h.node);
  return known != peers_.end() && h.incarnation < known->second.incarnation;
}

std::size_t peer_table::sessions() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(peers_.begin(), peers_.end(), [](const auto& p) { return p.second.up && is_operator(p.first); }));
}

std::shared_ptr<peer_counters> peer_table::put_up(const link& c) {
  const std::lock_guard lock(mutex_);
  auto& p = peers_[c->peer().node];
  p.up = c;
  p.incarnation = c->peer().incarnation;
  return p.counters;
}

bool peer_table::take_down(const link& c) {
  const std::string& name = c->peer().node;
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(name);
  const bool was_up = at != peers_.end() && at->second.up == c;
  if (was_up) at->second.up = nullptr;
  if (was_up && is_operator(name)) peers_.erase(at);  // session names are not reused: their records must not accumulate
  if (!was_up && !c->dialed()) ++refused_;
  return was_up;
}

void peer_table::pending(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  pending_ = count;
}

transport_stats peer_table::stats() const {
  transport_stats out;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, p] : peers_) {
    peer_stats s;
    s.peer = name;
    s.transport = p.up && p.up->shares_memory() ? "shm" : "tcp";
    if (p.up) s.why_not = p.up->why_no_memory();
    s.incarnation = p.incarnation;
    s.bytes_in = p.counters->bytes_in;
    s.bytes_out = p.counters->bytes_out;
    s.frames_in = p.counters->frames_in;
    s.frames_out = p.counters->frames_out;
    s.shared_in = p.counters->shared_in;
    s.round_trip = p.up ? 1e-9 * static_cast<double>(p.counters->round_trip) : 0;
    s.up = p.up != nullptr;
    if (p.up) {
      s.queued_bytes = p.up->queued();
      s.queued_frames = p.up->queued_frames();
      s.unreturned = p.up->outstanding();
      s.held = p.up->held();
    }
    out.peers.push_back(std::move(s));
  }
  out.refused = refused_;
  out.pending = pending_;
  return out;
}

}  // namespace troupe::net
