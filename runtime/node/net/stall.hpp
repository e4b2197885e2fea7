// Detects a peer that accepts no written bytes. A peer that sends heartbeats and never reads is not
// silent, but data queued for it never arrives. Called at each tick of the connection, so that a
// node that was itself stopped for a while declares no peer dead.
//
// Any byte that the socket takes or the peer acknowledges is progress: a slow peer is not
// disconnected, however slow. A peer whose application holds received frames (no credit) is not
// stalled either: a paused job does so for hours, and its transport continues to read.
#pragma once

#include <cstdint>

namespace troupe::net {

class stall {
 public:
  // `steps`: number of partial writes that the socket has taken; `undelivered`: bytes in the socket
  // that the peer has not acknowledged. Returns the ticks without progress.
  int tick(bool writing, std::uint64_t steps, std::uint64_t undelivered) {
    const bool same = writing && writing_ && steps == steps_ && undelivered == undelivered_;
    writing_ = writing;
    steps_ = steps;
    undelivered_ = undelivered;
    return ticks_ = same ? ticks_ + 1 : 0;
  }

 private:
  bool writing_ = false;
  std::uint64_t steps_ = 0, undelivered_ = 0;
  int ticks_ = 0;
};

}  // namespace troupe::net
