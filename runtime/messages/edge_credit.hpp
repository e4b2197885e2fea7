// Credit of one out-edge: how many more packets the consumer has room for. It comes back by name
// (the packet's msg_id), so that a word that arrives twice counts once: the consumer may be on
// another node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe {

class edge_credit {
 public:
  explicit edge_credit(std::uint32_t limit) : limit_(limit) {}

  // More than the limit may be under way where a producer makes packets again that a restarted
  // consumer has to have (stage_again.cpp).
  std::uint32_t left() const { return under_way_.size() < limit_ ? limit_ - static_cast<std::uint32_t>(under_way_.size()) : 0; }
  void take(msg_id packet) { under_way_.push_back(packet); }
  // False: it is back already.
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
