// Links with a latency and a bandwidth, shared by all messages that pass them, first come, first
// served. They make a parameter server slow and a tree fast.
//
// A message passes its path link by link. On a link it begins when its head has arrived and the
// link is free, and takes bytes / bandwidth; its tail cannot leave before it arrived. A switch
// forwards the head at once (cut-through) or the whole message when it is complete (store and
// forward). Queues in switches are unbounded: no message is lost here (faults.hpp loses messages).
//
//   begin_k    = max(head_k, free_k)
//   tail_k     = max(begin_k + bytes / bw_k, tail_(k-1) + latency_(k-1))
//   free_k     = tail_k
//   head_(k+1) = (cut-through ? begin_k : tail_k) + latency_k
//   arrival    = tail_last + latency_last
//
// star: egress of the source, ingress of the destination. tree, between racks: egress, uplink,
// downlink, ingress.
// Half duplex: the two links of a node, and of a rack, are one. Pure; the caller requests each link
// at the time at which the head arrives there, so that links serve in order of arrival.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sim/models.hpp"

namespace troupe::sim {

struct link {
  double bytes_per_second = 0;  // 0: infinite
  time_point free{};
  std::uint64_t messages = 0, bytes = 0;
  duration busy{};
};

struct path {
  std::array<std::uint32_t, 4> links{};
  std::uint8_t count = 0;
};

class fabric {
 public:
  fabric() = default;
  fabric(const network_model& m, std::uint32_t nodes);

  path between(std::uint32_t from, std::uint32_t to) const;

  struct passage {
    time_point head;  // when the head arrives at the far end of the link
    time_point tail;  // when the tail arrives there
  };
  // The message's head arrives at link `l` at `now`, its tail at `tail` (`now` on the first link).
  passage pass(std::uint32_t l, time_point now, time_point tail, std::uint64_t bytes);

  const std::vector<link>& links() const { return links_; }
  std::string name_of(std::uint32_t l) const;  // "n3 out", "n3 in", "rack2 up", "rack2 down"

 private:
  network_model model_;
  std::uint32_t nodes_ = 0;
  std::vector<link> links_;  // node i: 2i out, 2i + 1 in; then rack r: 2r up, 2r + 1 down
};

}  // namespace troupe::sim
