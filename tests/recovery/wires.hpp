// The two planes between simulated daemons, as roles and the control plane see TCP: connections are
// dialled, deliver messages in order, and end on both sides, not at the same time. Messages that
// cannot pass wait while the connection exists and are lost with it.
//
//   a daemon is killed   its peers see the connection close
//   a machine is lost    its peers receive nothing and drop the connection after `silence`, sooner
//                        if the machine is back and does not have the connection
//   a daemon is stopped  its peers receive nothing and drop the connection after `silence`; the
//                        daemon is notified when it continues
//   a way is cut         a side that receives nothing for `silence` drops the connection; the other
//                        side sees it close if the notification can pass
//
// Order is kept for all messages of a control connection, and on the data plane for each pair of
// roles. A way is one direction on one plane between two nodes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "actors/control/messages.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/sim/random.hpp"
#include "tests/recovery/agenda.hpp"

namespace troupe::recovery {

enum class plane : std::uint8_t { control, data };
using cargo = std::variant<control::message, envelope>;

struct range {
  duration least{}, most{};
  duration drawn(sim::random& r) const {
    return least + duration(static_cast<std::int64_t>(r.below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }
};

struct wire_times {
  range control{std::chrono::microseconds(50), std::chrono::milliseconds(2)};
  range data{std::chrono::microseconds(50), std::chrono::milliseconds(2)};
  duration silence = std::chrono::seconds(5), notices = std::chrono::seconds(1);
};

// What a daemon implements to receive from its connections.
class ears {
 public:
  virtual ~ears() = default;
  virtual void on_up(plane p, const std::string& peer, std::uint64_t incarnation) = 0;
  virtual void on_down(plane p, const std::string& peer, const std::string& reason) = 0;
  virtual void on_cargo(plane p, const std::string& peer, cargo c) = 0;
};

class wires {
 public:
  wires(agenda& a, sim::random& r, wire_times t) : agenda_(a), random_(r), times_(t) {}

  void open(const std::string& node, std::uint64_t incarnation, ears& who);
  // The daemon has ended. `silently`: with its machine, so its peers get no notification.
  void close(const std::string& node, bool silently);
  void dial(plane p, const std::string& from, const std::string& to, duration within);
  bool send(plane p, const std::string& from, const std::string& to, cargo c);
  bool up(plane p, const std::string& at, const std::string& peer) const;
  void cut(plane p, const std::string& from, const std::string& to);
  void mend(plane p, const std::string& from, const std::string& to);
  // The process is stopped: its peers receive nothing from it, and what they send waits in its
  // sockets.
  void stop(const std::string& node);
  void go_on(const std::string& node);
  std::uint64_t lost() const { return lost_; }

 private:
  struct end {
    bool up = false;
    std::uint64_t session = 0;
  };
  using way = std::tuple<plane, std::string, std::string>;  // from, to
  struct waiting {
    std::uint64_t session = 0;
    cargo what;
  };
  struct open_node {
    std::uint64_t incarnation = 0;
    ears* who = nullptr;
  };

  bool cut_now(plane p, const std::string& from, const std::string& to) const { return cuts_.count({p, from, to}) > 0; }
  bool passes(plane p, const std::string& a, const std::string& b) const {
    return !cut_now(p, a, b) && !cut_now(p, b, a) && stopped_.count(a) + stopped_.count(b) == 0;
  }
  void try_dial(plane p, const std::string& from, const std::string& to, time_point until, std::uint64_t incarnation);
  void establish(plane p, const std::string& at, const std::string& peer, std::uint64_t session, std::uint64_t of_peer,
                 std::uint64_t mine);
  void drop(plane p, const std::string& at, const std::string& peer, std::uint64_t session, const std::string& why);
  void drop_later(plane p, const std::string& at, const std::string& peer, duration later, const std::string& why);
  void carry(plane p, const std::string& from, const std::string& to, std::uint64_t session, cargo c);
  void find_half_open(plane p, const std::string& a, const std::string& b);
  end* end_at(plane p, const std::string& at, const std::string& peer);
  range latency(plane p) const { return p == plane::control ? times_.control : times_.data; }

  agenda& agenda_;
  sim::random& random_;
  const wire_times times_;
  std::map<std::string, open_node> nodes_;
  std::map<way, end> ends_;                   // the end at `from` of the connection with `to`
  std::map<way, std::uint64_t> cuts_;         // number of the cut
  std::map<way, std::vector<waiting>> held_;  // messages held by a cut
  std::map<way, time_point> dials_;
  std::map<std::string, std::uint64_t> stopped_;  // number of the stop, by node
  std::map<std::tuple<plane, std::string, std::string, std::uint32_t, std::uint32_t>, time_point> last_;
  std::uint64_t sessions_ = 0, cut_count_ = 0, lost_ = 0;
};

}  // namespace troupe::recovery
