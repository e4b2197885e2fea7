// The routes between nodes: each has its path over the fabric, the traffic it has carried and, if
// the wire is unreliable, the channel that hides this (channel.hpp). A route is made at its first
// lookup and keeps its index. Pure. References to routes are valid until the next route is made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/sim/channel.hpp"
#include "runtime/sim/fabric.hpp"
#include "runtime/sim/flat_map.hpp"

namespace troupe::sim {

// Messages and bytes (tensors and headers) sent from one node to another.
struct traffic {
  std::uint64_t messages = 0, bytes = 0;
};

struct route {
  std::uint32_t from = 0, to = 0;
  traffic sum;
  time_point last{};  // latest arrival, if the order is kept without a channel
  path way;
  std::unique_ptr<channel_sender> sender;
  std::unique_ptr<channel_receiver> receiver;
  bool timer = false;  // a resend event is in the queue
  bool cut = false;    // messages of plans wait in `held`
  struct waiting {
    std::uint32_t plan = 0;
    std::uint64_t session = 0;
    envelope e;
  };
  std::vector<waiting> held;
  std::uint64_t sends_in = 0, takes_in = 0;  // sessions of the channel's two sides; 0: of plan 0, or none
};

class route_table {
 public:
  route_table() = default;
  // `resend`: first retransmission timeout of channels; null: the wire is reliable and routes have
  // no channels.
  route_table(const network_model& m, std::uint32_t nodes, std::optional<duration> resend);

  bool reliable() const { return !resend_; }
  route& between(std::uint32_t from, std::uint32_t to);
  route& operator[](std::uint32_t index) { return all_[index]; }
  std::uint32_t index_of(const route& l) const { return static_cast<std::uint32_t>(&l - all_.data()); }

  fabric& wires() { return fabric_; }
  const fabric& wires() const { return fabric_; }
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> sums() const;

  // Resets the channels from and to a crashed node, and drops messages held by cuts. Adds their
  // counts, and the messages that they lose, to `counts`.
  void crash(std::uint32_t node, fault_counts& counts);
  // Begin anew in another session: frames that were not acknowledged, and those that wait behind a
  // gap, are lost.
  void send_in(route& l, std::uint64_t session, fault_counts& counts);
  void take_in(route& l, std::uint64_t session, fault_counts& counts);
  // Adds the counts of the current channels.
  void add_to(fault_counts& counts) const;

 private:
  fabric fabric_;
  bool routed_ = false;  // routes have a path over links
  std::optional<duration> resend_;
  flat_map<std::uint32_t> at_;  // by both nodes: index + 1
  std::vector<route> all_;
  std::vector<std::vector<std::uint32_t>> of_node_;  // by node: indices of the routes from and to it
};

}  // namespace troupe::sim
