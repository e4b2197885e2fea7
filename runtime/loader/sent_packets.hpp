// The packets that a loader has sent and restarted stages may request again, in the order of
// sending.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "ops/layer.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

struct sent_packet {
  header h;
  tensor data, label;
  std::uint32_t valid = 0, first_example = 0;
};

class sent_packets {
 public:
  void add(sent_packet p) { list_.push_back(std::move(p)); }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  std::size_t size() const { return list_.size(); }

  // Drops the packets of steps before `needed_from`, and those of an evaluation round when the next
  // round has begun or training has continued after it (steps below `granted` may begin). Calls
  // gone(id) for each.
  template <class Gone>
  void forget(std::uint64_t needed_from, std::uint64_t granted, Gone gone) {
    std::uint64_t latest = 0;
    for (const auto& p : list_)
      if (p.h.phase == static_cast<std::uint8_t>(phase::test)) latest = std::max(latest, p.h.step);
    std::erase_if(list_, [&](const sent_packet& p) {
      const bool train = p.h.phase == static_cast<std::uint8_t>(phase::train);
      if (train ? p.h.step >= needed_from : p.h.step >= latest && granted <= p.h.version) return false;
      gone(p.h.id);
      return true;
    });
  }

 private:
  std::deque<sent_packet> list_;
};

}  // namespace troupe
