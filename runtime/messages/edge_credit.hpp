// Credit of one out-edge: the number of packets that the consumer still accepts. Credit is returned
// with the msg_id of the packet, so that a `credit` message that arrives twice counts once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe {

class edge_credit {
 public:
  explicit edge_credit(std::uint32_t limit) : limit_(limit) {}

  // Returns how many packets may still be sent.
  std::uint32_t left() const { return under_way_.size() < limit_ ? limit_ - static_cast<std::uint32_t>(under_way_.size()) : 0; }
  void take(msg_id packet) { under_way_.push_back(packet); }
  // Returns false if the credit of this packet has been returned already.
  bool give_back(msg_id packet) {
    const auto at = std::find(under_way_.begin(), under_way_.end(), packet);
    if (at == under_way_.end()) return false;
    under_way_.erase(at);
    return true;
  }

 private:
  std::uint32_t limit_;
  std::vector<msg_id> under_way_;
};

}  // namespace troupe
