// Finds the connections that make the steps of a job slow: those whose round trip takes longer than
// that of the others. The transports measure it twice a second (net::peer_stats::round_trip).
//
//   window    1.2 s. A connection's time: the smallest round trip that one of its ends has reported
//   slow      the time is more than 1.5 times the median of the others, and exceeds it by at least
//             5 ms and a tenth of a step
//
// A connection that is slow in two windows, one after the other, is named once. If more than half
// of a node's connections are slow, the node is named and not they. Needs at least three
// connections.
// Pure: the caller passes what nodes have reported, and the time. Threads: a value. Errors: none.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/event_kinds.hpp"

namespace troupe {

struct link_load {
  std::string node, peer;
  double round_trip = 0;  // seconds; 0: unknown
};

struct slow_link {
  std::string node, peer;         // peer: empty for the connections of the node
  double seconds = 0, usual = 0;  // of a round trip: the connection's, and the median of the others
  // "n1 to n3 and back takes 201.2 ms, other connections 0.3 ms"
  std::string text() const;
};
straggler_event event_of(const slow_link& l);

class link_watch {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds window{1200};

  // `step_seconds`: that a step takes. Returns the connections that have become slow at this call.
  std::vector<slow_link> look(const std::vector<link_load>& all, double step_seconds, instant now);

 private:
  using pair = std::pair<std::string, std::string>;  // the smaller name first
  std::map<pair, slow_link> slow_in(double step_seconds) const;
  static std::map<pair, slow_link> by_nodes(std::map<pair, slow_link> slow, const std::map<pair, double>& all);

  std::map<pair, double> least_;  // of this window
  instant since_{};
  std::set<pair> slow_before_, named_;
};

}  // namespace troupe
