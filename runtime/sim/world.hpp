// A deterministic host for roles: one seeded event queue and a virtual clock. The roles are the
// ones that production hosts.
//
// Invariants: equal seed, roles and models give the same trace; messages between one pair of roles
// arrive in the order in which they were sent, each at least once while both nodes are up; tasks of
// one role and slot run one after the other; a task's `finished` arrives after its cost in virtual
// time. Faults of the wire (loss, reordering, repetition, partition) are hidden by a channel per
// ordered pair of nodes (channel.hpp), as TCP does in production. Roles see delays and second
// copies (faults with `above`). Without a device (`maths none`) tasks do not run: tensors are
// declared without values; times and order are the same.
// Plans: a world also hosts the roles of jobs whose plans follow each other, for simulated daemons.
// know() names a plan; each daemon spawns the plan's roles of its node. The header of their
// messages has the job and, as incarnation, the generation of the sender's plan; roles see the
// time since they were spawned.
//   * A message from another node arrives only if its receiver still has the session with which it
//     was sent, and if the node hosts the plan of the message. Else it is dropped and counted.
//   * A message within a node arrives only while the roles stand that were spawned with its sender.
// Roles of add() are plan 0 of job 0, which needs no session. With `session` set and an unreliable
// wire, plan 0 must not use the pairs of nodes that other plans use.
// Threads: a world belongs to one thread; several worlds may run in parallel.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/maths_rules.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/role.hpp"
#include "runtime/sim/agenda.hpp"
#include "runtime/sim/event_queue.hpp"
#include "runtime/sim/faults.hpp"
#include "runtime/sim/flat_map.hpp"
#include "runtime/sim/models.hpp"
#include "runtime/sim/param_store.hpp"
#include "runtime/sim/random.hpp"
#include "runtime/sim/route_table.hpp"

namespace troupe::sim {

// Counts and trace of a world's run so far.

// The running hash over a run's deliveries: four 64-bit lanes. Each word is multiplied and folded
// into its lane; the lanes are independent, so the processor computes them in parallel. Not
// cryptographic: it only distinguishes two runs.
class trace_hash {
 public:
  void add(const std::array<std::uint64_t, 8>& words) {
    for (std::size_t i = 0; i < 4; ++i) {
      state_[i] = fold(state_[i] ^ words[i], 0x9fb21c651e98df25ull + 2 * i);
      state_[i] = fold(state_[i] ^ words[i + 4], 0xd6e8feb86659fd93ull + 2 * i);
    }
    // Lane 0 depends on lane 3, so that swapping words between lanes changes the hash.
    state_[0] ^= state_[3] << 1;
  }
  const std::array<std::uint64_t, 4>& words() const { return state_; }
  std::uint64_t value() const {
    std::uint64_t h = 0xcbf29ce484222325ull;
    for (auto w : state_) h = fold(h ^ w, 0x9fb21c651e98df25ull);
    return h;
  }

 private:
  // Both steps are bijective. The product moves bits up, the shift moves the high bits down for the
  // next word.
  static std::uint64_t fold(std::uint64_t x, std::uint64_t by) {
    x = (x + by) * 0xa0761d6478bd642full;
    return x ^ (x >> 32);
  }

  std::array<std::uint64_t, 4> state_ = {1, 2, 3, 4};
};

struct world_report {
  std::uint64_t events = 0;      // handled: deliveries, hops, calls
  std::uint64_t deliveries = 0;  // events that roles received
  class trace_hash trace;
  fault_counts counts;  // counts of channels and stores only after a crash has ended them

  // Adds a delivery to the trace: time, type, source, destination, packet.
  void delivered(const envelope& e, time_point now) {
    const auto both = [](std::uint64_t high, std::uint64_t low) { return high << 32 | (low & 0xffffffff); };
    trace.add({static_cast<std::uint64_t>(now.count()), both(e.h.incarnation, e.body.index()), index_of(e.h.src), index_of(e.h.dst),
               static_cast<std::uint64_t>(e.h.id), e.h.step, e.h.version, e.h.packet});
    ++deliveries;
  }
};

// Tasks that run outside the world (world_config::elsewhere), each with the function that waits for
// it.
class tasks_elsewhere {
 public:
  // Returns the task's number, counted from 1.
  std::uint64_t add(std::function<void()> wait) {
    waits_.emplace(++begun_, std::move(wait));
    return begun_;
  }
  // Waits until the task is over. Returns at once if there is no such task or it has been waited
  // for.
  void wait_for(std::uint64_t number) {
    const auto at = waits_.find(number);
    if (at == waits_.end()) return;
    const auto wait = std::move(at->second);
    waits_.erase(at);
    wait();
  }
  bool none() const { return waits_.empty(); }
  void wait_for_all() {
    while (!waits_.empty()) wait_for(waits_.begin()->first);
  }

 private:
  std::map<std::uint64_t, std::function<void()>> waits_;
  std::uint64_t begun_ = 0;
};

// The cores of every node, and the time that a task takes on one: a task begins on the core that is
// free first. Pure; draws stragglers from its own random numbers.
class processors {
 public:
  processors(compute_model m, std::uint64_t seed) : model_(std::move(m)), random_(seed ^ 0x70726f636573736full) {}

  // Returns the task's time on a node that is neither a straggler nor slowed down by a fault.
  duration time_of(const task_cost& c) const;
  // Returns that time on this node, with the factors of a drawn straggler and of a slow node.
  duration drawn(std::uint32_t node, duration time, fault_counts& counts);

  struct turn {
    time_point begin, end;
  };
  turn run(std::uint32_t node, duration time, time_point now);
  // Makes all cores of a crashed node idle.
  void clear(std::uint32_t node, time_point now);

 private:
  std::vector<time_point>& cores_of(std::uint32_t node);

  compute_model model_;
  random random_;
  std::vector<std::vector<time_point>> cores_;
  std::vector<double> slow_;
};

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
  std::uint32_t nodes = 0;  // at least so many nodes. A fabric with links needs all of them before the first event
  // After one side of a connection of the data plane is up, the other side is up within this time.
  duration connects_within{};
  // A mistake on purpose: messages of other plans of the job are delivered.
  bool no_fence = false;
};

// size: the parts of one simulated world
class world final : public agenda {
 public:
  explicit world(world_config c);
  ~world() override;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  // `on`: index of the node's device that the role's tasks run on.
  void add(role_id id, std::uint32_t node, std::unique_ptr<role> r, std::uint32_t on = 0);
  // Delivers a message from outside the world now, e.g. a user's command.
  void inject(envelope e);
  // Calls `what` at a virtual time (not before now), between two events.
  void at(time_point when, work what) override;
  // Handles the next event. Returns false if there is none.
  bool step();
  // Handles events until none is left, `stop` returns true or `limit` events were handled. Returns
  // false at the limit.
  bool run(std::uint64_t limit, const std::function<bool()>& stop = {});

  bool up(std::uint32_t node) const { return node >= nodes_.size() || nodes_[node].up; }

  // A plan of a job: the node of each role, by id. Returns its number, at least 1; the same number
  // for the same job, generation and nodes. Generations of a job's plans differ.
  std::uint32_t know(std::uint32_t job, std::uint32_t generation, std::vector<std::uint32_t> node_of);
  std::uint32_t job_of(std::uint32_t plan) const { return plans_[plan].job; }
  std::uint32_t generation_of(std::uint32_t plan) const { return plans_[plan].generation; }
  struct seat {
    role_id id = no_role;
    std::unique_ptr<role> value;
    std::uint32_t device = 0;  // index of the node's device that the role's tasks run on
  };
  // Hosts these roles of the plan on the node, which is up. They receive no start{}: the daemon
  // delivers it. Throws std::invalid_argument if the node already hosts this job, or a role is not
  // the plan's on this node.
  void spawn(std::uint32_t node, std::uint32_t plan, std::vector<seat> roles);
  // The job's roles on this node, their tasks, shared parameters and messages within the node are
  // gone; messages that they have sent to other nodes are not. No effect if there are none.
  void end(std::uint32_t node, std::uint32_t job);
  bool hosts(std::uint32_t node) const { return node < nodes_.size() && !nodes_[node].spawns.empty(); }  // roles of any plan but 0
  // Delivers a message of the node's daemon to the role `e.h.dst` of this node now, after events
  // that are already due. Counted as lost if the node does not host it.
  void deliver(std::uint32_t node, std::uint32_t job, envelope e);
  struct hosted_role {
    std::uint32_t plan = 0;
    role_id id = no_role;
    const role* value = nullptr;
    std::uint64_t messages = 0;  // that it has received, and ends of tasks
    bool failed = false;
  };
  std::vector<hosted_role> roles_of(std::uint32_t node) const;  // of all plans but 0, in order of spawn()
  // The node's process ends: it loses its roles, their tasks, and the messages in flight from and
  // to it. No role is told. revive(): the node is up, without roles.
  void die(std::uint32_t node);
  void revive(std::uint32_t node);
  // SIGSTOP and SIGCONT: what arrives at the node's roles in between, tasks' ends included, is
  // handled after go_on(), in order.
  void stop(std::uint32_t node);
  void go_on(std::uint32_t node);
  // The times of faults of messages are counted from now. They have not begun yet.
  void begin_faults() { faults_.count_from(now_); }
  // Tasks of the node take `factor` times as long from now on; 1: as ever.
  void slow(std::uint32_t node, double factor);
  // The node's clock is `ahead` now, and runs `rate` times as fast from now on.
  void skew(std::uint32_t node, duration ahead, double rate);
  // Messages that roles of plans send from one node to the other wait until mend(), and are lost if
  // the sender's session has changed by then. Those on the wire arrive. The first call needs all
  // nodes, as the first event does.
  void cut(std::uint32_t from, std::uint32_t to);
  void mend(std::uint32_t from, std::uint32_t to);
  // Connections of the data plane, for plans: returns the session that `at` has with `peer`; 0:
  // none. Both sides have the same number, and a later one has a higher number. Unset: all nodes
  // are always connected.
  std::function<std::uint64_t(std::uint32_t at, std::uint32_t peer)> session;

  time_point now() const override { return now_; }
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
  // The same with the node and the plan. The tensors of a plan's store effects are immutable. With
  // on_node_store set, no time on disk is simulated for checkpoints of plans.
  std::function<void(std::uint32_t node, std::uint32_t plan, const event_effect&)> on_node_event;
  std::function<void(std::uint32_t node, std::uint32_t plan, const store_effect&)> on_node_store;
  // A role of a plan has thrown while it handled a message of this step, or one of its tasks has;
  // it handles nothing more. Unset: the exception leaves step(). Mistakes (allow_mistakes) always
  // do.
  std::function<void(std::uint32_t node, std::uint32_t plan, role_id who, std::uint64_t step, const std::string& what)>
      on_role_failure;
  // After the effects of each message that a role of a plan has handled (not of a task's end), and
  // for each that the fence has dropped (`old`; `plan`: the one that the node hosts). The message
  // has its absolute incarnation. While this is set, a message's tensors live until it returns.
  std::function<void(std::uint32_t node, std::uint32_t plan, role_id who, const envelope&, bool old)> on_acted;
  // Called when a checkpoint that was begun at `begun` is on disk; not called for a checkpoint that
  // is skipped because two others are unfinished.
  std::function<void(std::uint64_t step, time_point begun)> on_stored;
  std::function<void(const envelope&, time_point)> on_deliver;  // every delivery; for golden transcripts
  // on_span: a task was scheduled. on_wire: a message has crossed nodes. For timelines.
  struct span {
    role_id who = no_role;
    const char* kind = "";
    std::optional<header> packet;  // that the task works on
    time_point begin{}, end{};
    std::uint32_t plan = 0;
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
    std::uint32_t node = 0, incarnation = 0;  // incarnation: the generation of the role's plan
    bool there = false;                       // add() was called
    bool stopped = false, failed = false;
    std::uint64_t messages = 0;
    time_point last_task{}, last_shared{};  // end of the last task and shared effect; both finish in order
    flat_map<time_point> last_from;         // uniform network: latest arrival by source
    device* dev = nullptr;
    std::vector<std::shared_ptr<device>> streams;  // by slot, if the device has streams
    std::shared_ptr<device> leaving;               // stream for tensors that go to other devices
  };
  struct plan_state {
    std::uint32_t job = 0, generation = 0;
    std::vector<std::uint32_t> node_of;  // by role
    std::uint32_t spawned = 0;           // number of nodes that host it
    std::vector<hosted> roles;           // by role; empty while no node hosts the plan
  };
  // The roles of one plan on one node.
  struct spawned {
    std::uint32_t job = 0, plan = 0;
    std::uint64_t serial = 0;
    time_point began{};  // by the node's clock
    std::vector<role_id> roles;
    std::unique_ptr<param_store> shared;  // made at first use
  };
  enum class kind : std::uint8_t { deliver, frame, acknowledgement, resend, shared };
  struct record {  // size: one entry of the queue; its fields are reused for all kinds
    envelope e;
    kind what = kind::deliver;
    std::uint8_t hop = 0;  // links passed; while hop < way.count the event is the head's arrival at the next link
    bool keeps_order = false;
    bool arrived = false, again = false;  // it is at the node, which was stopped; it is in the queue once more
    std::uint32_t from = 0, to = 0;       // nodes
    std::uint32_t from_life = 0, to_life = 0;
    std::uint32_t route = 0, attempt = 0;
    std::uint32_t plan = 0;     // of the sender; not that of a message which a channel has held
    std::uint64_t session = 0;  // of the connection; within a node: serial of the spawn; 0: of plan 0
    std::uint64_t answers = 0;  // acknowledgement: sequence of the frame that it answers
    std::uint64_t number = 0;   // sequence of a frame, count of an acknowledgement, or task
    std::uint64_t bytes = 0;
    time_point sent{}, tail{};
    duration longer{};
  };
  using slot = event_queue<record>::slot;
  struct node_state {
    std::uint32_t life = 0;  // raised by every end of its process; earlier events are void
    bool up = true;
    bool stopped = false;
    std::uint32_t late = 0;   // records in the queue once more (record::again)
    std::vector<slot> aside;  // of the stopped node, in order
    std::vector<spawned> spawns;
    std::unique_ptr<param_store> shared;  // of plan 0; made at first use
    faults::clock clock;
    time_point disk_free{};  // when the next checkpoint can be written
    std::uint32_t writing = 0;
    double slow = 1;
  };
  // What put() puts on the wire beside the message.
  struct parcel {
    kind what = kind::deliver;
    std::uint32_t attempt = 0, plan = 0;
    std::uint64_t number = 0, bytes = 0, answers = 0, session = 0;
    duration longer{};
  };
  // Empty between events; kept for their memory, so that a steady world allocates no memory.
  struct buffers {
    effects wanted;                 // effects of the role that handles the event
    std::vector<envelope> arrived;  // messages that one frame makes deliverable
  };
  // Ends the run (world_config::allow_mistakes).
  struct mistake final : std::logic_error {
    using std::logic_error::logic_error;
  };

  // world.cpp
  void begin();
  void handle(slot s, record& r);
  void deliver(record& r);
  void act(hosted& h, std::uint32_t plan, record& r, time_point time, bool keeps);
  void fail_on_mistake(const role& r, const envelope& e) const;
  void fail_on_stray_fields(role_id self, const envelope& e) const;
  void take_effects(std::uint32_t plan, role_id self);
  header header_to_itself(std::uint32_t plan, role_id self);
  void schedule_local(time_point when, std::uint32_t plan, role_id self, message body, std::uint64_t number);
  void run_task(std::uint32_t plan, role_id self, run_effect& r);
  device& stream_of(hosted& h, std::uint32_t solver);
  device& leaving_stream_of(hosted& h);
  std::uint64_t begin_task(std::uint64_t in_turn, device& dev, task_work task);
  void begin_shared(std::uint32_t plan, role_id self, shared_effect& e);
  void go_on_shared(slot s, record& r);
  // world_wire.cpp
  void send(std::uint32_t plan, role_id self, envelope&& e);
  void deliver_again(record& r);
  hosted* address(std::uint32_t plan, const hosted& from, role_id self, envelope& e);
  void send_remote(const hosted& from, const hosted& to, std::uint32_t plan, envelope&& e);
  void carry(route& l, envelope&& e, std::uint64_t bytes, std::uint32_t plan, std::uint64_t in);
  void put(route& l, envelope&& e, const parcel& p);
  void launch(route& l, envelope&& e, const parcel& p, duration longer);
  void pass(slot s, record& r);
  void arm(route& l);
  void take_frame(record& r);
  void take_acknowledgement(record& r);
  void resend(std::uint32_t index);
  duration drawn_latency();
  // world_plans.cpp
  node_state& node_at(std::uint32_t node);
  spawned* spawned_on(std::uint32_t node, std::uint32_t job);
  std::uint64_t serial_of(std::uint32_t node, std::uint32_t plan);
  const spawned* receiver_of(const record& r);
  hosted* at_home(std::uint32_t node, std::uint32_t plan, role_id id);
  bool lost_on_the_way(record& r);
  bool has_to_wait(std::uint32_t node) const { return nodes_[node].stopped || nodes_[node].late > 0; }
  bool put_aside(slot s, record& r);
  void act_in_plan(hosted& h, const spawned& in, record& r);
  void wait_for_task(const record& r);
  void fail(std::uint32_t node, std::uint32_t plan, role_id who, std::uint64_t step, const std::string& what);
  void end_spawn(spawned& s);
  void keep_streams(hosted& h);
  // world_life.cpp
  bool void_now(const record& r);
  void end_process(std::uint32_t node);
  void end_life(hosted& h);
  time_point read_clock(std::uint32_t node) const;
  void write_checkpoint(std::uint32_t node, const store_effect& s);

  slot fill(record*& r, kind what, std::uint32_t from, std::uint32_t to);
  void give_back(slot s, record& r);
  hosted& place(std::uint32_t plan, role_id id) { return (plan == 0 ? roles_ : plans_[plan].roles)[index_of(id)]; }
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
  std::vector<hosted> roles_;                                                // of plan 0, by role id
  std::deque<plan_state> plans_;                                             // by number; element 0 is not used
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> latest_;  // by job, generation: number of the plan
  std::uint64_t serials_ = 0;
  std::vector<node_state> nodes_;
  // Calls are entries of the queue without a record: first_call + index.
  static constexpr slot first_call = event_queue<record>::most_at_once;
  std::vector<work> calls_;
  std::vector<slot> free_calls_;
  tasks_elsewhere tasks_;
  std::vector<std::shared_ptr<device>> old_streams_;  // of roles that are gone, while their tasks may run
  event_queue<record> queue_;
  buffers buffers_;
};

}  // namespace troupe::sim
