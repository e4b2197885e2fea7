// A deterministic host for roles: one seeded event queue and a virtual clock. The roles are the
// ones that production hosts.
//
// Invariants: equal seed, roles and models give the same trace; messages between one pair of roles
// arrive in the order in which they were sent, each at least once while both nodes are up; tasks of
// one role and slot run one after the other; a task's `finished` arrives after its cost in virtual
// time.
// Faults of the wire (loss, reordering, repetition, partition) are hidden by a channel per ordered
// pair of nodes (channel.hpp), as TCP does in production. Roles see delays, second copies (faults
// with `above`) and peers that crash. Without a device (`maths none`) tasks do not run: tensors are
// declared without values; times and order are the same.
// Threads: a world belongs to one thread; several worlds may run in parallel.
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

#include "ops/maths_rules.hpp"
#include "runtime/role.hpp"
#include "runtime/sim/event_queue.hpp"
#include "runtime/sim/faults.hpp"
#include "runtime/sim/flat_map.hpp"
#include "runtime/sim/models.hpp"
#include "runtime/sim/param_store.hpp"
#include "runtime/sim/processors.hpp"
#include "runtime/sim/random.hpp"
#include "runtime/sim/route_table.hpp"
#include "runtime/sim/tasks_elsewhere.hpp"
#include "runtime/sim/world_report.hpp"

namespace troupe::sim {

struct world_config {
  std::uint64_t seed = 1;
  network_model network;
  compute_model compute;
  device* dev = nullptr;  // null: tasks are not run
  fault_model faults;
  std::vector<std::string> node_names;  // for peer_down; defaults are "n<index + 1>"
  // Runs a task on another thread, after earlier tasks of the same seat (a number), and returns the
  // function that waits for it. The world calls that function when the task's `finished` is due and
  // before the world is destroyed. A role thus continues while its task runs, as in a cluster.
  // Empty: tasks run at once.
  std::function<std::function<void()>(std::uint64_t seat, std::function<void()>)> elsewhere = {};
  // If nodes have several devices: by index in the nodes' lists, the same for all nodes; `dev` is
  // one of them. Empty: only `dev`.
  std::vector<device*> devices = {};
  maths_rules maths = {};  // of the devices' streams
  disk_model disk = {};    // of every node
  // A role that drops a message for a reason that is a mistake (runtime/messages/drops.hpp), or
  // sets a header field that its message does not use (header_fields.hpp), ends the run with
  // std::logic_error. True: it goes on. For runs with mistakes on purpose.
  bool allow_mistakes = false;
};

// size: the parts of one simulated world
class world {
 public:
  explicit world(world_config c);
  ~world();

  // `on`: index of the node's device that the role's tasks run on.
  void add(role_id id, std::uint32_t node, std::unique_ptr<role> r, std::uint32_t on = 0);
  // Delivers a message from outside the world now, e.g. a user's command.
  void inject(envelope e);
  // Calls `what` at a virtual time (not before now), between two events.
  void at(time_point when, std::function<void()> what);
  // Handles the next event. Returns false if there is none.
  bool step();
  // Handles events until none is left, `stop` returns true or `limit` events were handled. Returns
  // false at the limit.
  bool run(std::uint64_t limit, const std::function<bool()>& stop = {});

  // The node loses its roles, their tasks, and the messages in flight from and to it. If
  // it is still down after faults.detect, role 0 gets peer_down; if role 0 is down too, on_event
  // gets the error.
  void crash(std::uint32_t node);
  // `remake` makes the node's roles with the next incarnation. Each gets start{}, in order of ids.
  void restart(std::uint32_t node);
  // Crashes and restarts a single role. It loses its state, tasks, its messages in
  // flight, and messages sent to it while it is down. It is restarted as with its node. The
  // coordinator is not notified.
  void crash(role_id id);
  void restart(role_id id);
  bool up(std::uint32_t node) const { return node >= nodes_.size() || nodes_[node].up; }
  std::function<std::unique_ptr<role>(role_id, std::uint32_t incarnation)> remake;

  time_point now() const { return now_; }
  std::uint64_t events() const { return report_.events; }          // handled: deliveries, hops, calls
  std::uint64_t deliveries() const { return report_.deliveries; }  // events that roles received
  std::size_t max_queued() const { return queue_.most(); }
  std::uint64_t trace_hash() const { return report_.trace.value(); }
  const std::array<std::uint64_t, 4>& trace_state() const { return report_.trace.words(); }
  fault_counts counts() const;
  std::map<std::pair<std::uint32_t, std::uint32_t>, traffic> links() const { return routes_.sums(); }  // from, to
  const fabric& wires() const { return routes_.wires(); }
  role* find(role_id id);

  std::function<void(const event_effect&)> on_event;
  std::function<void(const store_effect&)> on_store;
  // Called when a checkpoint that was begun at `begun` is on disk; not called for a checkpoint that
  // is skipped because two others are unfinished.
  std::function<void(std::uint64_t step, time_point begun)> on_stored;
  // Called when a node (`role`: no_role), or a single role, crashes, is restarted, or is reported
  // to the coordinator as down.
  enum class life_change : std::uint8_t { crashed, restarted, reported_down };
  std::function<void(life_change what, std::uint32_t node, role_id role)> on_life;
  std::function<void(const envelope&, time_point)> on_deliver;  // every delivery; for golden transcripts
  // on_span: a task was scheduled. on_wire: a message has crossed nodes. For timelines.
  struct span {
    role_id who = no_role;
    const char* kind = "";
    std::optional<header> packet;  // that the task works on
    time_point begin{}, end{};
  };
  std::function<void(const span&)> on_span;
  std::function<void(const envelope&, time_point sent, time_point arrived)> on_wire;
  // Returns the measured time of a task of this role; null: the compute model decides.
  std::function<std::optional<duration>(role_id, const task_cost&)> measured;
  // With the uniform network: returns the measured time of a message between two nodes; null: the
  // network model decides.
  std::function<std::optional<duration>(std::uint32_t from, std::uint32_t to, std::uint64_t bytes)> crossing;
  // Returns how many copies of a message arrive; 0 loses it. A second copy raises `attempt` and
  // arrives some time after the first, with other messages between them; it never overtakes. Empty:
  // one.
  std::function<int(const envelope&, random&)> copies;

 private:
  struct hosted {
    std::unique_ptr<role> value;
    std::uint32_t node = 0, incarnation = 0;
    std::uint32_t fenced = 0;  // messages of earlier incarnations are dropped; set when the role crashes without its node
    bool there = false;        // add() was called
    bool stopped = false;
    time_point last_task{}, last_shared{};  // end of the last task and shared effect; both finish in order
    flat_map<time_point> last_from;         // uniform network: latest arrival by source
    device* dev = nullptr;
    std::vector<std::shared_ptr<device>> streams;  // by slot, if the device has streams
    std::shared_ptr<device> leaving;               // stream for tensors that go to other devices
  };
  struct node_state {
    std::uint32_t life = 0;  // incarnation of the node: raised by every crash; earlier events are void
    bool up = true;
    std::unique_ptr<param_store> shared;  // made at first use
    faults::clock clock;
    time_point disk_free{};  // when the next checkpoint can be written
    std::uint32_t writing = 0;
    std::vector<std::uint32_t> roles;  // that were added on this node, in order; valid if roles_listed_
  };
  enum class kind : std::uint8_t { deliver, frame, acknowledgement, resend, shared, call };
  struct record {  // size: one entry of the queue; its fields are reused for all kinds
    envelope e;
    kind what = kind::deliver;
    std::uint8_t hop = 0;  // links passed; while hop < way.count the event is the head's arrival at the next link
    bool keeps_order = false;
    std::uint32_t from = 0, to = 0;  // nodes
    std::uint32_t from_life = 0, to_life = 0;
    std::uint32_t route = 0, attempt = 0;
    std::uint64_t answers = 0;  // acknowledgement: sequence of the frame that it answers
    std::uint64_t number = 0;   // sequence of a frame, count of an acknowledgement, index of a call, or task
    std::uint64_t bytes = 0;
    time_point sent{}, tail{};
    duration longer{};
  };
  using slot = event_queue<record>::slot;
  // Empty between events; kept for their memory, so that a steady world allocates no memory.
  struct buffers {
    effects wanted;                 // effects of the role that handles the event
    std::vector<envelope> arrived;  // messages that one frame makes deliverable
  };

  // world.cpp
  void begin();
  void deliver(record& r);
  void fail_on_mistake(const role& r, const envelope& e) const;
  void fail_on_stray_fields(role_id self, const envelope& e) const;
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
  void put(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt = 0,
           std::uint64_t answers = 0);
  void launch(route& l, envelope&& e, kind what, std::uint64_t number, std::uint64_t bytes, std::uint32_t attempt,
              std::uint64_t answers, duration longer);
  void pass(slot s, record& r);
  void arm(route& l);
  void take_frame(record& r);
  void take_acknowledgement(record& r);
  void resend(std::uint32_t index);
  duration drawn_latency();
  // world_life.cpp
  bool void_now(const record& r);
  void plan_crashes();
  const std::vector<std::uint32_t>& roles_on(std::uint32_t node);
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
  bool roles_listed_ = false;  // node_state::roles is up to date
  time_point now_{};
  world_report report_;
  std::vector<hosted> roles_;  // by role id
  std::vector<node_state> nodes_;
  std::vector<std::function<void()>> calls_;
  tasks_elsewhere tasks_;
  event_queue<record> queue_;
  std::size_t lying_in_wait_ = 0;  // queued crashes at a rate; if no other events are queued, the run is over
  buffers buffers_;
};

}  // namespace troupe::sim
