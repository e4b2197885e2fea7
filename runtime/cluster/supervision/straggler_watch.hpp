// Finds the roles that make the steps of a job slow: a stage, loader, shard or reducer whose tasks
// take longer for each step than those of its peers, the roles of the same kind and layer. Workers
// of a synchronous job all take equally long for a step, so the length of a step does not show
// which one they wait for; the time in tasks does.
//
//   window        `steps` steps. A role's time: what its tasks took, divided by the steps
//   slow          its time is more than `times` the median of its peers, and exceeds it by at least
//                 `least` and by `share` of a step
//   worker        the time of all its roles. If a worker is slow, and not because of one of its
//                 roles, then the worker is named and not its roles: a busy or throttled machine
//   a straggler   what is slow in two windows, one after the other. It stays one until a window in
//                 which it is not slow
//
// Needs at least three roles of a kind and layer. Pure: the caller passes what the roles have
// published, at intervals, and the time. Threads: a value. Errors: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/messages/event_kinds.hpp"

namespace troupe {

struct role_load {
  std::string node, role;  // role: "worker3/conv1"
  std::uint64_t step = 0;  // that the role is at; of the roles of a worker, that of "worker3" counts
  double busy = 0;         // seconds in tasks since the role began
};

struct straggler {
  std::string node, role;  // role: or "worker3", for all roles of a worker
  std::size_t peers = 0;
  double seconds = 0, usual = 0;  // time in tasks for a step: the role's, and the median of its peers
  double costs() const { return seconds - usual; }
  // "worker3/conv1 at n4 takes 245.1 ms for a step, its 7 peers 45.3 ms: it costs 199.8 ms"
  std::string text() const;
};

struct straggler_limits {
  std::uint64_t steps = 7;
  double times = 1.5, share = 0.1;
  std::chrono::duration<double> least = std::chrono::milliseconds(1);
};

straggler_event event_of(const straggler& s);

class straggler_watch {
 public:
  using instant = std::chrono::steady_clock::time_point;

  explicit straggler_watch(straggler_limits l = {}) : limits_(l) {}
  // Returns the roles that have become stragglers at this call.
  std::vector<straggler> look(std::vector<role_load> all, instant now);
  // The stragglers of the last window, by role.
  const std::map<std::string, straggler>& slow() const { return named_; }
  double step_seconds() const { return step_seconds_; }  // that a step took in the last window; 0: there was none

 private:
  struct mark {
    std::uint64_t step = 0;
    double busy = 0;
  };
  struct time_of_role {
    std::string node;
    double seconds = 0;
  };
  using times = std::map<std::string, time_of_role>;  // for a step, by role
  void open(const std::vector<role_load>& all, instant now);
  std::vector<straggler> close(const times& of_roles, double step_seconds);
  std::map<std::string, straggler> slow_in(const times& of_roles, double step_seconds) const;
  std::map<std::string, straggler> slow_of(const times& of_roles, double step_seconds) const;

  straggler_limits limits_;
  std::map<std::string, mark> begun_;  // of the window, by role
  instant since_{};
  std::set<std::string> slow_before_;  // in the window before
  double step_seconds_ = 0;
  std::map<std::string, straggler> named_;
};

// "conv1" of "worker3/conv1", "shard" of "shard2": roles of one group are peers. Those of the
// tester have none: their work is another one.
std::string peers_of(const std::string& role);

}  // namespace troupe
