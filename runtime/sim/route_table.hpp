// The lanes that messages have taken, each from one node to another: its way over the fabric, what
// has gone over it, and, where the wire is unreliable, the channel that hides that (channel.hpp). A
// lane is made when it is first asked for, and keeps its index. Pure. References to lanes are valid
// until the next one is made.
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

// Messages and tensor bytes that went from one node to another.
struct traffic {
  std::uint64_t messages = 0, bytes = 0;
};

struct route {
  std::uint32_t from = 0, to = 0;
  traffic sum;
  time_point last{};  // latest arrival, where order is kept without a channel
  path way;
  std::unique_ptr<channel_sender> sender;
  std::unique_ptr<channel_receiver> receiver;
  bool timer = false;  // a resend event is in the queue
};

class route_table {
 public:
  route_table() = default;
  // `resend`: of channels; none: the wire is reliable, and lanes have none.
  route_table(const network_model& m, std::uint32_t nodes, std::optional<duration> resend);

  bool reliable() const { return !resend_; }
  route& between(std::uint32_t from, std::uint32_t to);
  route& operator[](std::uint32_t index) { return all_[index]; }
  std::uint32_t index_of(const route& l) const { return static_cast<std::uint32_t>(&l - all_.data()); }

  fabric& wires() { return fabric_; }
  const fabric& wires() const { return fabric_; }
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> sums() const;

  // What a crash of the node ends: channels from and to it begin anew. What was under way is lost,
  // and counted with what they have counted.
  void crash(std::uint32_t node, fault_counts& counts);
  // What the channels that live have counted.
  void add_to(fault_counts& counts) const;

 private:
  fabric fabric_;
  bool routed_ = false;  // lanes have a way over links
  std::optional<duration> resend_;
  flat_map<std::uint32_t> at_;  // by both nodes: index + 1
  std::vector<route> all_;
};

}  // namespace troupe::sim
