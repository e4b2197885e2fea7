// A deterministic host for roles: one seeded event queue and a virtual clock. The role values are
// the ones production hosts.
//
// Invariants: equal seed, roles and models give the same trace; messages between one pair of roles
// arrive in the order they were sent, each at least once while both nodes are up; tasks of one role
// and slot run one after the other; a task's `finished` comes after its cost in virtual time.
// Faults of the wire (loss, reordering, repetition, partition) lie below a channel per ordered pair
// of nodes (channel.hpp), as TCP does in production; roles see delay, a second copy where one is
// asked for `above`, and peers that crash. Without a device (`maths none`) tasks are not run:
// tensors stay declared, time and order are the same.
// Threads: none; a world belongs to one thread, many worlds may run side by side.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/role.hpp"
#include "runtime/sim/event_queue.hpp"
#include "runtime/sim/faults.hpp"
#include "runtime/sim/flat_map.hpp"
#include "runtime/sim/models.hpp"
#include "runtime/sim/param_store.hpp"
#include "runtime/sim/processors.hpp"
#include "runtime/sim/random.hpp"
#include "runtime/sim/role_timers.hpp"
#include "runtime/sim/route_table.hpp"
#include "runtime/sim/tasks_elsewhere.hpp"
#include "runtime/sim/world_report.hpp"

namespace troupe::sim {

struct world_config {
  std::uint64_t seed = 1;
  network_model network;
  compute_model compute;
  device* dev = nullptr;  // null: maths none
  fault_model faults;
  std::vector<std::string> node_names;  // for peer_down; missing ones are "n<index + 1>"
  // Runs a task away from here, behind those of the same seat (a number), and returns what waits
  // for it; the world does when the task's `finished` is due, and before it ends. So a role goes on
  // while its task runs, as in a cluster. None: tasks run at once.
  std::function<std::function<void()>(std::uint64_t seat, std::function<void()>)> elsewhere = {};
  // Where nodes have several devices: by number in their lists, alike for all nodes; `dev` is one
  // of them. Empty: `dev` alone.
  std::vector<device*> devices = {};
  disk_model disk = {};  // of every node
};

class world {
 public:
  explicit world(world_config c);
  ~world();

  // `on`: which of the node's devices its tasks run on.
  void add(role_id id, std::uint32_t node, std::unique_ptr<role> r, std::uint32_t on = 0);
  // A message from outside the world, a person's command for instance: delivered now.
  void inject(envelope e);
  // Calls `what` at a virtual time (not before now), between two events.
  void at(time_point when, std::function<void()> what);
  // Handles the next event; false when there is none.
  bool step();
  // Until nothing is left, or `stop` says so, or `limit` events were handled. Returns false at the
  // limit.
  bool run(std::uint64_t limit, const std::function<bool()>& stop = {});

  // The node loses its roles, what they waited for and what is under way from and to them. When it
  // is still down after faults.detect, role 0 hears peer_down; where that one is down itself,
  // on_event hears the error.
  void crash(std::uint32_t node);
  // Its roles are made anew by `remake`, with the next incarnation, and each gets start{}, in order
  // of ids.
  void restart(std::uint32_t node);
  // One role alone: it loses what it holds and waits for, what it has said and is not there yet,
  // and what comes while it is down. Restarted as with its node. Nobody is told.
  void crash(role_id id);
  void restart(role_id id);
  bool up(std::uint32_t node) const { return node >= nodes_.size() || nodes_[node].up; }
  std::function<std::unique_ptr<role>(role_id, std::uint32_t incarnation)> remake;

  time_point now() const { return now_; }
  std::uint64_t events() const { return report_.events; }          // handled: deliveries, hops, timers, calls
  std::uint64_t deliveries() const { return report_.deliveries; }  // of them, what roles saw
  std::size_t max_queued() const { return queue_.most(); }
  std::uint64_t trace_hash() const { return report_.trace.value(); }
  const std::array<std::uint64_t, 4>& trace_state() const { return report_.trace.words(); }
  fault_counts counts() const;
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> links() const { return routes_.sums(); }  // from, to
  const fabric& wires() const { return routes_.wires(); }
  role* find(role_id id);

  std::function<void(const event_effect&)> on_event;
  std::function<void(const store_effect&)> on_store;
  // A checkpoint is on disk, that was begun then; one that is left out, as two others waited, is
  // not heard of.
  std::function<void(std::uint64_t step, time_point begun)> on_stored;
  std::function<void(const envelope&, time_point)> on_deliver;  // golden transcripts
  // A task that will have run from `begin` to `end`; a message that crossed nodes. For pictures.
  std::function<void(role_id, const char* kind, time_point begin, time_point end)> on_span;
  std::function<void(const envelope&, time_point sent, time_point arrived)> on_wire;
  // What a task of this role takes, where it has been measured; none: the compute model says.
  std::function<std::optional<duration>(role_id, const task_cost&)> measured;
  // How many copies of a message arrive; 0 loses it. A second copy raises `attempt` and comes some
  // time after the first, with other messages between them; it never overtakes. Empty: one.
  std::function<int(const envelope&, random&)> copies;

 private:
  struct hosted {
    std::unique_ptr<role> value;
    std::uint32_t node = 0, incarnation = 0;
    std::uint32_t fenced = 0;  // messages of incarnations before are dropped: it has crashed alone
    bool there = false;        // add() was called
    bool stopped = false;
    time_point last_task{}, last_shared{};  // its tasks finish in order; so do its shared effects
    flat_map<time_point> last_from;         // uniform network: latest arrival by source
    role_timers timers;
    device* dev = nullptr;
    std::vector<std::shared_ptr<device>> streams;  // by slot, of a device that has lanes
    std::shared_ptr<device> leaving;               // the lane of what crosses to other devices
  };
  struct node_state {
    std::uint32_t life = 0;  // raised by every crash: what was under way before it is void
    bool up = true;
    std::unique_ptr<param_store> shared;  // made by the first who needs it
    faults::clock clock;
    time_point disk_free{};  // from when it can write the next checkpoint
    std::uint32_t writing = 0;
  };
  enum class kind : std::uint8_t { deliver, frame, acknowledgement, resend, shared, call };
  struct record {
    envelope e;
    kind what = kind::deliver;
    std::uint8_t hop = 0;  // links passed; while hop < way.count the event is the head's arrival at the next one
    bool keeps_order = false;
    std::uint32_t from = 0, to = 0;  // nodes
    std::uint32_t from_life = 0, to_life = 0;
    std::uint32_t route = 0, attempt = 0;
    std::uint64_t number = 0;  // of a timer's setting, sequence of a frame, count of an acknowledgement, index of a call
    std::uint64_t bytes = 0;
    time_point sent{}, tail{};
    duration longer{};
  };
  using slot = event_queue<record>::slot;
  // Empty between events, and there for their memory: a steady world allocates nothing.
  struct buffers {
    effects wanted;                 // by the role that reacts
    std::vector<envelope> arrived;  // with one frame
  };

  // world.cpp
  void begin();
  void deliver(record& r);
  void take_effects(role_id self);
  void schedule_local(time_point when, role_id self, message body, std::uint64_t number);
  void run_task(role_id self, run_effect& r);
  device& stream_of(hosted& h, std::uint32_t solver);
  device& leaving_stream_of(hosted& h);
  std::uint64_t begin_task(std::uint64_t seat, device& dev, task_work work);
  void begin_shared(role_id self, shared_effect& e);
  void go_on_shared(slot s, record& r);
  // world_wire.cpp
  void send(role_id self, envelope&& e);
  void deliver_again(record& r);
  void send_remote(const hosted& from, hosted& to, envelope&& e);
  void put(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt = 0);
  void launch(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt, duration longer);
  void pass(slot s, record& r);
  void arm(route& l);
  void take_frame(record& r);
  void take_acknowledgement(record& r);
  void resend(std::uint32_t index);
  duration drawn_latency();
  // world_life.cpp
  bool void_now(const record& r);
  void plan_crashes();
  void end_life(hosted& h);
  void begin_life(role_id id);
  bool of_past_life(const envelope& e) const;
  void detect(std::uint32_t node, std::uint32_t life);
  void plan_next_crash(const faults::unit& u);
  time_point read_clock(std::uint32_t node) const;
  void write_checkpoint(std::uint32_t node, const store_effect& s);

  slot fill(record*& r, kind what, std::uint32_t from, std::uint32_t to);
  hosted* at_home(role_id id) {
    return index_of(id) < roles_.size() && roles_[index_of(id)].value ? &roles_[index_of(id)] : nullptr;
  }

  world_config config_;
  random random_;
  faults faults_;
  processors processors_;
  route_table routes_;
  bool begun_ = false, inside_ = false;
  time_point now_{};
  world_report report_;
  std::vector<hosted> roles_;  // by role id
  std::vector<node_state> nodes_;
  std::vector<std::function<void()>> calls_;
  tasks_elsewhere tasks_;
  event_queue<record> queue_;
  std::size_t lying_in_wait_ = 0;  // of them, crashes at a rate: when nothing else is left, nothing will happen
  buffers buffers_;
};

}  // namespace troupe::sim
