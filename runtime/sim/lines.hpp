// The connections between simulated daemons on the two planes, as TCP shows them: they are dialled,
// deliver messages in order, and end on both sides, not at the same time. Messages that cannot pass
// wait while the connection stands and are lost with it.
//
//   a daemon is killed   its peers see the connection close
//   a machine is lost    its peers receive nothing and drop the connection after `silence`, sooner
//                        if the machine is back and does not have the connection
//   a daemon is stopped  its peers receive nothing and drop the connection after `silence`; the
//                        daemon is notified when it continues
//   a way is cut         a side that receives nothing for `silence` drops the connection; the other
//                        side sees it close if the notification can pass
//
// A way is one direction on one plane between two nodes. Messages of the control plane pass through
// send(); those of the data plane are carried by sim::world, which asks for session().
// Memory: a table with 64 bytes per cell, at most half full, of all pairs of nodes that were
// dialled or cut on a plane.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/sim/agenda.hpp"
#include "runtime/sim/flat_map.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

enum class plane : std::uint8_t { control, data };

struct line_times {
  duration silence = std::chrono::seconds(5);            // a side that receives nothing for this long drops the connection
  duration notices = std::chrono::seconds(1);            // period of the keep-alives by which a side finds that it is alone
  duration dial_again = std::chrono::milliseconds(100);  // time from an attempt in vain to the next
};

// What a daemon implements. Its functions are called while the daemon is stopped, too: it defers
// what it does (process_agenda::now_or_later).
class line_user {
 public:
  virtual ~line_user() = default;
  // `incarnation`: of the peer. An earlier connection with the peer has been reported as down.
  virtual void on_up(plane p, std::uint32_t peer, std::uint64_t incarnation) = 0;
  // A connection has ended, or dial() has found no peer in time.
  virtual void on_down(plane p, std::uint32_t peer, const std::string& reason) = 0;
};

class lines {
 public:
  using latency_model = std::function<duration(plane p, std::uint32_t from, std::uint32_t to)>;

  // `latency`: of one message; at most `most_latency`. Both references must outlive the lines and
  // the calls that they have entered.
  lines(agenda& a, random& r, line_times t, latency_model latency, duration most_latency)
      : agenda_(a), random_(r), times_(t), latency_(std::move(latency)), most_latency_(most_latency) {}
  lines(const lines&) = delete;
  lines& operator=(const lines&) = delete;

  // A daemon has started. `incarnation`: not that of an earlier daemon of the node. `who` must
  // live until close().
  void open(std::uint32_t node, std::uint64_t incarnation, line_user& who);
  // The daemon has ended. `silently`: with its machine, so its peers get no notification.
  void close(std::uint32_t node, bool silently);
  // Tries to connect until it succeeds or `within` is over (on_down). A later call extends the
  // time.
  void dial(plane p, std::uint32_t from, std::uint32_t to, duration within);

  bool up(plane p, std::uint32_t at, std::uint32_t peer) const { return session(p, at, peer) != 0; }
  // The number of the connection as `at` sees it, the same on both sides; 0: `at` has none. A later
  // connection has a higher number.
  std::uint64_t session(plane p, std::uint32_t at, std::uint32_t peer) const;

  // Control plane. `arrive` is run if the peer still has the connection, in the order of sending;
  // the daemon of a stopped peer defers it. Returns false if the sender has no connection.
  bool send(std::uint32_t from, std::uint32_t to, std::function<void()> arrive);
  std::uint64_t lost() const { return lost_; }  // messages of send() that never arrive

  void cut(plane p, std::uint32_t from, std::uint32_t to);
  void mend(plane p, std::uint32_t from, std::uint32_t to);
  bool cut_now(plane p, std::uint32_t from, std::uint32_t to) const;
  // The process is stopped: its peers receive nothing from it, and what they send waits in its
  // sockets.
  void stop(std::uint32_t node);
  void go_on(std::uint32_t node);

 private:
  // One node's end of its connection with a peer, and the way from the node to the peer.
  struct end {
    std::uint64_t session = 0;  // of the latest connection
    time_point dial_until{};
    std::uint32_t cut = 0;  // number of the cut; 0: none
    bool up = false;
  };
  using pair_ends = std::array<end, 2>;  // at the node with the lower number, at the other
  struct node_state {
    line_user* who = nullptr;  // null: there is no daemon
    std::uint64_t incarnation = 0;
    std::uint32_t stopped = 0;  // number of the stop; 0: none
  };
  struct waiting {
    std::uint64_t session = 0;
    std::function<void()> arrive;
  };

  // Mixed (splitmix64, a bijection): the numbers of all pairs of many nodes would make long runs in
  // a flat_map.
  static std::uint64_t pair_of(std::uint32_t a, std::uint32_t b) {
    return random(a < b ? std::uint64_t{a} << 32 | b : std::uint64_t{b} << 32 | a).next();
  }
  static std::uint64_t way_of(std::uint32_t from, std::uint32_t to) { return std::uint64_t{from} << 32 | to; }
  // The reference is valid until the next call for a new pair.
  end& end_of(plane p, std::uint32_t at, std::uint32_t peer);
  const end* find(plane p, std::uint32_t at, std::uint32_t peer) const;
  node_state& node_of(std::uint32_t node);
  bool open_now(std::uint32_t node) const { return node < nodes_.size() && nodes_[node].who != nullptr; }
  bool runs(std::uint32_t node, std::uint64_t incarnation) const {
    return open_now(node) && nodes_[node].incarnation == incarnation;
  }
  bool passes(plane p, std::uint32_t a, std::uint32_t b) const;
  std::string silent_for() const;
  void try_dial(plane p, std::uint32_t from, std::uint32_t to, std::uint64_t incarnation);
  void establish(plane p, std::uint32_t at, std::uint32_t peer, std::uint64_t session, std::uint64_t of_peer, std::uint64_t mine);
  void drop(plane p, std::uint32_t at, std::uint32_t peer, std::uint64_t session, const std::string& why);
  void drop_later(plane p, std::uint32_t at, std::uint32_t peer, duration later, const char* why);
  void carry(std::uint32_t from, std::uint32_t to, std::uint64_t session, std::function<void()> arrive);
  void find_half_open(plane p, std::uint32_t a, std::uint32_t b);
  void check_later(plane p, std::uint32_t at, std::uint32_t peer);

  agenda& agenda_;
  random& random_;
  const line_times times_;
  const latency_model latency_;
  const duration most_latency_;
  std::vector<node_state> nodes_;
  std::array<flat_map<pair_ends>, 2> ends_;                       // by plane, pair of nodes
  flat_map<time_point> last_;                                     // control plane: latest arrival, by way
  std::unordered_map<std::uint64_t, std::vector<waiting>> held_;  // control plane: by cut way
  std::uint64_t sessions_ = 0, lost_ = 0;
  std::uint32_t cuts_ = 0;  // and stops, so far
};

}  // namespace troupe::sim
