// Runs roles again in the order of their logs: the role objects of production, whose tasks run at
// once on one thread. A message that arrives before its turn waits. There is no time and no
// network; a role's clock shows the logged time. Of the messages that can be delivered, the one
// with the earliest logged time is next, so a run of one process is repeated in the order of its
// messages.
//
// Why this is enough: a role's decisions depend only on the messages that it receives and on their
// order, and tasks give the same bits wherever and whenever they run (docs/determinism.md).
// Hogwild's shared array is the exception: here its reads and additions run one after the other.
//
// Invariants: messages of one source reach a role in the order in which they were sent. A role with
// a log receives exactly the messages that the log names; a role without one receives all messages
// that arrive; so does one whose log was cut, from its end on, while there are roles whose log was
// not. Threads: none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/replay/delivery_log.hpp"
#include "runtime/role.hpp"
#include "runtime/sim/param_store.hpp"

namespace troupe::replay {

// A role that ended with an exception, in the role or in its task.
struct role_failure {
  role_id who = no_role;
  std::uint64_t step = 0;
  std::string text;
};

struct replay_end {
  std::uint64_t delivered = 0;          // messages that the logs name
  std::uint64_t lost = 0;               // messages that were sent, but never arrived according to the logs
  std::vector<std::string> departures;  // where the run differs from the logs; empty: it followed them to their end
  std::vector<role_failure> failures;   // in the order in which they occurred
};

// A message that was delivered, or waits.
struct replayed {
  role_id to = no_role;
  delivery what;
};

// The state of a role between two messages.
struct replayed_role {
  role_status status;
  std::uint64_t handled = 0;
  bool ended = false, failed = false;
  std::optional<delivery> next = {};     // what its log names next; none: it has no log, or has followed it to the end
  std::vector<delivery> arrived = {};    // messages that wait for their turn, by source
  std::vector<std::uint64_t> over = {};  // tokens of tasks that have run, and of which the role does not know yet
};

class player {
 public:
  player(device& dev, std::uint32_t job) : dev_(dev), job_(job) {}
  // The run ends earlier than the recorded one: when all roles wait, messages that no role sends
  // are skipped, and from then on also those from outside the job. Roles at the end of their logs
  // take messages in any order. Call before the first step().
  void leave_logs() { leaves_logs_ = true; }
  // Call in order of ids, without a gap. `log`: null if there is none.
  void add(std::unique_ptr<role> value, std::string name, std::uint32_t node, const role_part* log);
  // Delivers the next message. Nullopt: none can be delivered.
  std::optional<replayed> step();
  // The end so far. Departures are meaningful when step() has returned nullopt.
  replay_end end() const;
  // Runs until no message can be delivered.
  replay_end run() {
    while (step()) {
    }
    return end();
  }
  replayed_role look(role_id r) const;
  const std::string& name_of(role_id r) const { return roles_[index_of(r)].name; }
  std::size_t roles() const { return roles_.size(); }

  std::function<void(role_id, const event_effect&)> on_event;
  std::function<void(const store_effect&)> on_store;

 private:
  struct over_task {
    std::uint64_t token = 0;
    std::optional<std::string> error;
  };
  // Messages from one source that were sent and not yet delivered. A later one was delivered before
  // the first `passed`: a source without a log may have sent them in another order; those of a
  // source with a log were lost.
  struct way {
    std::deque<envelope> sent;
    std::size_t passed = 0;
  };
  // size: a role, its log, and what waits for it
  struct hosted {
    std::unique_ptr<role> value;
    std::string name;
    std::uint32_t node = 0;
    const role_part* log = nullptr;
    std::size_t chunk = 0;  // the next one to read
    std::optional<chunk_reader> reader;
    std::optional<delivery> next;  // the next entry of the log
    std::uint64_t read = 0, handled = 0;
    std::map<std::uint32_t, way> received;  // by source
    // Sources in order of arrival, for takes_any(); some messages may have been delivered already.
    std::deque<std::uint32_t> order;
    std::deque<over_task> over;   // finished tasks that the role was not notified of
    time_point now{}, arrived{};  // arrived: the time of the latest sender
    bool stopped = false, failed = false, awake = false;
  };

  void advance(hosted& h);
  bool takes_any(const hosted& h) const { return !h.log || (h.log->cut && !all_cut_) || leaves_logs_; }
  bool skip_one();
  std::optional<delivery> hand_next(role_id self);
  std::optional<delivery> hand_logged(role_id self, hosted& h);
  std::optional<delivery> hand_any(role_id self, hosted& h);
  void tell_of_task(role_id self, hosted& h, std::deque<over_task>::iterator at, std::uint64_t step);
  void hand(role_id self, envelope&& e);
  void take_effects(role_id self);
  void send(role_id self, envelope&& e);
  void run_task(hosted& h, run_effect& r);
  void share(role_id self, shared_effect& x);
  void fail(role_id self, std::uint64_t step, std::string text);
  void wake(std::uint32_t role);
  void look_for_departures(replay_end& end) const;

  device& dev_;
  const std::uint32_t job_;
  std::vector<hosted> roles_;
  std::map<std::uint32_t, sim::param_store> shared_;      // by node
  std::set<std::pair<time_point, std::uint32_t>> awake_;  // by the time at which the role goes on
  bool begun_ = false, leaves_logs_ = false, has_skipped_ = false;
  bool all_cut_ = true;  // all logs were cut
  effects wanted_;
  replay_end end_;
};

}  // namespace troupe::replay
