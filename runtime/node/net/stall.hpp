// Whether a peer takes anything of what is written to it. One that sends heartbeats and never reads
// is not silent, and yet nothing will come of what waits for it. Told at each tick of the
// connection, so that a node that was itself stopped for a while declares nobody dead.
//
// Any byte that leaves for the peer, or that it acknowledges, is progress: a slow peer is not
// ended, however slow. That its application holds what has come (no credit) is no stall either: a
// job that is paused does so for hours, and its transport reads on.
#pragma once

#include <cstdint>

namespace troupe::net {

class stall {
 public:
  // `steps`: how often a part of what is written has been taken by the socket; `undelivered`: bytes
  // that the socket has and the peer has not acknowledged. Returns the ticks without progress.
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
