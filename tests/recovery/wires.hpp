// The two planes between simulated daemons, as roles and control plane see TCP: connections that
// are dialled, carry messages in order, and end on both sides, though not at once. Bytes that
// cannot pass wait while the connection lives, and go with it.
//
//   a daemon is killed     its peers see the connection close
//   a machine is lost      its peers hear nothing, and give it up after `silence`; sooner when it is there again and knows nothing of them
//   a daemon is stopped    its peers hear nothing, and give it up after `silence`; it hears of that when it goes on
//   a way is cut           whoever hears nothing through it for `silence` gives up; the other side sees that close, if it can
//
// Order: of a connection of the control plane all, of the data plane each pair of roles. Ways are
// cut by plane and direction.
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

// A daemon, as its connections know it.
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
  // The daemon is gone; `silently`: with its machine, which cannot say so.
  void close(const std::string& node, bool silently);
  void dial(plane p, const std::string& from, const std::string& to, duration within);
  bool send(plane p, const std::string& from, const std::string& to, cargo c);
  bool up(plane p, const std::string& at, const std::string& peer) const;
  void cut(plane p, const std::string& from, const std::string& to);
  void mend(plane p, const std::string& from, const std::string& to);
  // The process stands still: its peers hear nothing of it, and what they send waits in its
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
  std::map<way, end> ends_;                   // of `from`, with `to`
  std::map<way, std::uint64_t> cuts_;         // and which cut it is
  std::map<way, std::vector<waiting>> held_;  // behind a cut
  std::map<way, time_point> dials_;
  std::map<std::string, std::uint64_t> stopped_;  // nodes, and which stop it is
  std::map<std::tuple<plane, std::string, std::string, std::uint32_t, std::uint32_t>, time_point> last_;
  std::uint64_t sessions_ = 0, cut_count_ = 0, lost_ = 0;
};

}  // namespace troupe::recovery
