// A deterministic host for roles: one seeded event queue and a virtual clock. The role values are the ones production hosts.
//
// Invariants: equal seed, roles and models give the same trace; messages between one pair of roles arrive in the order they were
// sent; jobs of one role and slot run one after the other; a job's `finished` comes after its cost in virtual time.
// Without a device (`maths none`) jobs are not run: tensors stay declared, time and order are the same.
// Threads: none; a world belongs to one thread, many worlds may run side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/role.hpp"
#include "runtime/sim/random.hpp"

namespace troupe::sim {

// Time on the wire. The default draws a uniform latency, which makes every order of delivery possible that the per-pair order allows.
struct network_model {
  duration least{1000}, most{200000};
  duration local{200};          // between roles of one node
  double bytes_per_second = 0;  // 0: size costs nothing
  bool shuffle_local = true;    // draw latencies between roles of one node too
};
struct compute_model {
  double flops_per_second = 100e9, bytes_per_second = 10e9;
  duration floor{500};
  unsigned cores = 2;  // of one node: that many jobs run at once
};

struct world_config {
  std::uint64_t seed = 1;
  network_model network;
  compute_model compute;
  device* dev = nullptr;  // null: maths none
};

class world {
 public:
  explicit world(world_config c) : config_(c), random_(c.seed) {}

  void add(role_id id, std::uint32_t node, std::unique_ptr<role> r);
  // From outside: delivered now.
  void inject(envelope e);
  // Handles the next event; false when there is none.
  bool step();
  // Until nothing is left, or `stop` says so, or `limit` events were handled. Returns false at the limit.
  bool run(std::uint64_t limit, const std::function<bool()>& stop = {});

  time_point now() const { return now_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t trace_hash() const { return trace_; }
  // Messages and tensor bytes that went from one node to another.
  struct traffic {
    std::uint64_t messages = 0, bytes = 0;
  };
  const std::map<std::pair<std::uint32_t, std::uint32_t>, traffic>& links() const { return links_; }
  role* find(role_id id);

  std::function<void(const event_effect&)> on_event;
  std::function<void(const store_effect&)> on_store;
  std::function<void(const envelope&, time_point)> on_deliver;  // golden transcripts
  // How many copies of a message arrive; 0 loses it. A second copy raises `attempt` and takes a latency of its own. Empty: one.
  std::function<int(const envelope&, random&)> copies;

 private:
  struct hosted {
    std::unique_ptr<role> value;
    std::uint32_t node = 0;
    bool stopped = false;
    std::unordered_map<std::uint32_t, time_point> last_from;  // latest arrival by source
    std::unordered_map<std::uint64_t, std::uint64_t> timers;  // timer -> generation
  };
  struct event {
    time_point at;
    std::uint64_t order;
    envelope e;
    std::uint64_t generation = 0;  // of a timer
    friend bool operator>(const event& a, const event& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  void schedule(time_point at, envelope e, std::uint64_t generation = 0);
  void take_effects(role_id self, hosted& h);
  void send(hosted& from, envelope e);
  void transmit(const hosted& from, hosted& to, envelope e);
  void run_job(role_id self, hosted& h, run_effect r);
  void note(const envelope& e);

  world_config config_;
  random random_;
  time_point now_{};
  std::uint64_t order_ = 0, events_ = 0, trace_ = 0xcbf29ce484222325ull, generations_ = 0;
  std::vector<std::unique_ptr<hosted>> roles_;  // by role id
  std::vector<event> queue_;                    // heap
  std::map<std::uint32_t, std::vector<time_point>> cores_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> links_;
  effects effects_;
};

}  // namespace troupe::sim
