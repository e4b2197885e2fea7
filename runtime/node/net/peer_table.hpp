// The peers of a transport: the current connection, the latest incarnation, and the counters over
// all connections. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/node/net/connection.hpp"

namespace troupe::net {

class peer_table {
 public:
  using link = std::shared_ptr<connection>;

  link current(std::string_view peer) const;  // null if the peer is not up
  bool knows_later(const hello& h) const;     // true if a later incarnation of this peer has been up

  std::size_t sessions() const;  // operator sessions that are up

  // Makes `c` the peer's current connection, in place of any former one.
  std::shared_ptr<peer_counters> put_up(const link& c);
  // Called when `c` has closed. Returns true if it was the peer's current connection. An inbound
  // connection that was never up counts as refused.
  bool take_down(const link& c);
  void pending(std::uint64_t count);  // inbound connections that are not authenticated yet

  // All fields except pooled_bytes.
  transport_stats stats() const;

 private:
  struct record {
    link up;
    std::uint64_t incarnation = 0;  // the highest seen
    std::shared_ptr<peer_counters> counters = std::make_shared<peer_counters>();
  };

  mutable std::mutex mutex_;
  std::map<std::string, record, std::less<>> peers_;
  std::uint64_t refused_ = 0, pending_ = 0;
};

}  // namespace troupe::net
