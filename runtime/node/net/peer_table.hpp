// Whom a transport has met: the connection that is up, the latest incarnation, the counters over
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

  link current(std::string_view peer) const;  // null: none is up
  bool knows_later(const hello& h) const;     // an incarnation of this peer after the one that greets

  std::size_t sessions() const;  // of operators, that are up

  // `c` is up from here on, whichever was before.
  std::shared_ptr<peer_counters> put_up(const link& c);
  // `c` is closed. Was it the one that was up? One that never was, and came from outside, counts as
  // refused.
  bool take_down(const link& c);
  void pending(std::uint64_t count);  // connections that have not greeted yet

  // All but what the pool keeps.
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
