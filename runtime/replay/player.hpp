// Runs roles again in the order in which they were handed things: the values that production hosts,
// their tasks on one thread, at once. What is in flight and is not its turn waits. There is neither
// time nor a network: a role's clock shows what it showed then.
//
// Why it is enough: a role decides by what it hears, in its order, alone, and tasks give the same
// bits wherever and whenever they run (docs/determinism.md). Hogwild's shared array is the one
// thing outside of it: its reads and additions are made here one after the other.
//
// Invariants: messages of one source reach a role in the order they were sent; a role with a log is
// handed exactly what that names, one without whatever comes. Threads: none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/replay/delivery_log.hpp"
#include "runtime/role.hpp"
#include "runtime/sim/param_store.hpp"

namespace troupe::replay {

// A role that ended by an exception, of its own or of its task.
struct role_failure {
  role_id who = no_role;
  std::uint64_t step = 0;
  std::string text;
};

struct replay_end {
  std::uint64_t delivered = 0;          // of what the logs name
  std::uint64_t lost = 0;               // messages that were sent, and that their logs say never came
  std::vector<std::string> departures;  // where the run is another than the logs'; empty: they were followed to their end
  std::vector<role_failure> failures;   // in the order in which they came
};

class player {
 public:
  player(device& dev, std::uint32_t job) : dev_(dev), job_(job) {}
  // In order of ids, without a gap. `log`: none where nobody has it.
  void add(std::unique_ptr<role> value, std::string name, std::uint32_t node, const role_part* log);
  // Until nothing more can be handed to anybody. Once.
  replay_end run();

  std::function<void(role_id, const event_effect&)> on_event;
  std::function<void(const store_effect&)> on_store;

 private:
  struct over_task {
    std::uint64_t token = 0;
    std::optional<std::string> error;
  };
  // From one source, sent and not yet handed on. Of those before `passed` a later one has been: a
  // source without a log may say them in another order, and of one with a log they were lost.
  struct way {
    std::deque<envelope> sent;
    std::size_t passed = 0;
  };
  struct hosted {
    std::unique_ptr<role> value;
    std::string name;
    std::uint32_t node = 0;
    const role_part* log = nullptr;
    std::size_t chunk = 0;  // the next to read
    std::optional<chunk_reader> reader;
    std::optional<delivery> next;  // in the log
    std::uint64_t read = 0;
    std::map<std::uint32_t, way> received;  // by source
    std::deque<std::uint32_t> order;        // their sources as they came: of a role without a log
    std::deque<over_task> over;             // tasks, not yet told of
    std::map<std::uint64_t, duration> timers;
    time_point now{};
    bool stopped = false, failed = false, awake = false;
  };

  void advance(hosted& h);
  bool hand_next(role_id self);
  bool hand_logged(role_id self, hosted& h);
  bool hand_any(role_id self, hosted& h);
  bool fire_any();
  bool tell_of_task(role_id self, hosted& h, std::deque<over_task>::iterator at, std::uint64_t step);
  void hand(role_id self, envelope&& e);
  void take_effects(role_id self);
  void send(role_id self, envelope&& e);
  void run_task(hosted& h, run_effect& r);
  void share(role_id self, shared_effect& x);
  void fail(role_id self, std::uint64_t step, std::string text);
  void wake(std::uint32_t role);
  void look_for_departures();

  device& dev_;
  const std::uint32_t job_;
  std::vector<hosted> roles_;
  std::map<std::uint32_t, sim::param_store> shared_;  // by node
  std::deque<std::uint32_t> awake_;
  effects wanted_;
  replay_end end_;
};

}  // namespace troupe::replay
