// Messages of mode `gossip` and factories of its worker sync and shard sync. gossip.cpp describes
// the protocol.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/sync/mode.hpp"

namespace troupe {

// Types of `user` messages.
enum gossip_type : std::uint32_t {
  // A copy of a layer, sent when the worker has made header.step steps; bytes: layer, mass, count
  // among the shares of one boundary (0: before it).
  share = 1,
  all_said = 2,   // the sender has sent all its shares of flush user.number
  want_copy = 3,  // shard to worker: send your copy of the weights as `state` with request = user.number
  rests = 4,      // the sender is idle: it has made all steps below the boundary header.step
};

std::unique_ptr<role> make_gossip_worker(sync_config c);
std::unique_ptr<role> make_gossip_shard(sync_config c);

}  // namespace troupe
