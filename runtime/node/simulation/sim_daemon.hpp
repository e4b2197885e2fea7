// A simulated daemon: the control plane's state machines (cluster controller, member), job
// executor, checker and journal, assembled as in actors/control/host/actors.cpp. Its roles are
// hosted by the world. Blocking work takes virtual time, one piece after the other, as in the job
// executor's actor. Checkpoints and the journal are on the machine's disk (sim_disk).
// Threads: those of the world: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/cluster/controller/orders.hpp"
#include "runtime/cluster/job_host.hpp"
#include "runtime/cluster/view/events.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/node/executor/checker.hpp"
#include "runtime/node/executor/job_executor.hpp"
#include "runtime/node/executor/job_preparer.hpp"
#include "runtime/node/executor/memory_states.hpp"
#include "runtime/sim/agenda.hpp"
#include "runtime/sim/lines.hpp"
#include "runtime/sim/random.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::sim {

// What a test makes simulated daemons do wrong, to learn whether its invariants notice: changes of
// what passes between the state machines of a daemon and the host that carries out their orders.
// Production code has no part in it. Empty functions, the default: nothing is wrong.
struct tampering {
  // Orders before they are carried out. The function may change the list.
  std::function<void(std::uint32_t node, control::orders&)> of_controller = {};
  std::function<void(std::uint32_t node, control::member_orders&)> of_member = {};
  // A message of another daemon, before it is handled. False: it is lost.
  std::function<bool(std::uint32_t node, control::message&)> takes = {};
  // A connection with a peer has ended. False: the daemon does not learn it.
  std::function<bool(std::uint32_t node, std::uint32_t peer)> hears_end = {};
  // State that roles store. False: it is lost, although the cluster controller learns that it is
  // kept.
  std::function<bool(std::uint32_t node, store_effect&)> keeps = {};
};

// How long a simulated daemon takes for what is not a role's work. Virtual times.

// A time that is drawn anew for each use.
struct range {
  duration least{}, most{};
  duration drawn(random& r) const {
    return least + duration(static_cast<std::int64_t>(r.below(static_cast<std::uint64_t>((most - least).count()) + 1)));
  }
  range times(double factor) const {
    const auto scaled = [factor](duration d) {
      return duration(static_cast<std::int64_t>(static_cast<double>(d.count()) * factor));
    };
    return {scaled(least), scaled(most)};
  }
};

struct daemon_times {
  range control{std::chrono::microseconds(50), std::chrono::milliseconds(2)};  // of a message of the control plane on its way
  range plan{std::chrono::milliseconds(1), std::chrono::milliseconds(20)};     // to read a job and make a plan
  range roles{std::chrono::milliseconds(1), std::chrono::milliseconds(10)};    // to spawn or replace the roles of a node
  range end{std::chrono::microseconds(10), std::chrono::milliseconds(5)};      // to end the roles of a node
  range store{std::chrono::milliseconds(1), std::chrono::milliseconds(40)};    // to write a checkpoint or weights
  double store_bytes_per_second = 0;                                           // in addition, by size; 0: size costs no time
  double state_bytes_per_second = 0;  // to read a checkpoint, and to fill the memory of a new shard; 0: size costs no time
  range boot{std::chrono::milliseconds(1), std::chrono::milliseconds(300)};  // of the first start of each daemon
  line_times lines;
};

class sim_daemon;

// Observer of daemons. All functions are called after the event; the defaults do nothing.
struct daemon_watcher {
  virtual ~daemon_watcher() = default;
  virtual void on_message(std::uint32_t node, const control::message& m);  // of the control plane, handled
  virtual void on_order(const control::order& o);                          // of the cluster controller
  virtual void on_role_event(std::uint32_t generation, const event_effect& e,
                             std::uint32_t running);  // running: generation of the plan that began last
  virtual void on_client_message(const std::string& client, const control::message& m);
  virtual void on_drained(std::uint32_t node);
  virtual void on_log(std::uint32_t node, const std::string& line);
  virtual void on_said(const event_effect& e);  // the event is in the log that answers lines of clients
};

// What all daemons of a simulation share.
struct daemon_surroundings {
  world& all_roles;
  random& draws;
  lines& net;
  const daemon_times& times;
  const cluster_spec& cluster;
  std::shared_ptr<const tables> all;
  std::shared_ptr<device> dev;  // null: tensors have no values
  std::string numerics;
  std::shared_ptr<control::job_preparer> plans;
  daemon_watcher& watch;
  std::function<sim_daemon*(std::uint32_t node)> at;  // null: it does not run
  const tampering& wrong;
  std::unordered_map<std::string, std::uint32_t> named;  // the index of each node of the cluster
};

// The index of the first node with the role "coordinator"; 0: there is none.
std::uint32_t coordinator_in(const cluster_spec& c);

// What is on a machine's disk. It outlives the daemon.
struct sim_disk {
  std::shared_ptr<control::memory_states> states;  // checkpoints and weights
  std::shared_ptr<control::memory_journal> journal;
  void fill(bool full) {
    states->full = full;
    journal->full = full;
  }
};

// size: one object has all that control_actor shares with the job executor and the checker
class sim_daemon final : public line_user, public job_host, public job_routes {
 public:
  sim_daemon(daemon_surroundings& s, std::uint32_t node, sim_disk disk, std::uint64_t incarnation);
  ~sim_daemon() override;
  sim_daemon(const sim_daemon&) = delete;
  sim_daemon& operator=(const sim_daemon&) = delete;

  std::uint32_t node() const { return node_; }
  const std::string& name() const { return name_; }
  bool coordinates() const { return controller_.has_value(); }
  bool idle() const { return member_.idle() && !s_.all_roles.hosts(node_); }
  double slow_disk = 1;  // factor on the time of stores
  // SIGSTOP and SIGCONT. Messages that arrive in between wait in the sockets.
  void stop() { when_.stop(); }
  void go_on() { when_.go_on(); }
  void client_says(const std::string& client, control::message m);
  expected<void> tell(const command& c);
  void drain();
  // For lines of a REPL: what was last published, at most a tick old; the events so far; and a
  // command, which takes effect some time later. With not_told_event if the controller refuses it.
  const repl_view& published();
  repl_view view() const;  // as it is now
  const repl_events& said() const { return said_; }
  command_id command_of(const person& who, std::uint32_t job, command c);
  void now_or_later(std::function<void()> what) { when_.now_or_later(std::move(what)); }
  std::vector<control::role_entry> roles() const;

  // From the cluster.
  void on_up(plane p, std::uint32_t peer, std::uint64_t incarnation) override;
  void on_down(plane p, std::uint32_t peer, const std::string& reason) override;
  void receive(std::uint32_t peer, control::message m);
  void role_event(std::uint32_t job, std::uint32_t generation, const event_effect& e);
  void role_store(std::uint32_t job, const store_effect& e);
  void role_failure(std::uint32_t job, std::uint32_t generation, role_id who, std::uint64_t step, const std::string& what);

 private:
  using instant = control::instant;
  instant now() const { return instant{} + std::chrono::hours(1) + when_.now(); }
  control::job_place place() const { return {s_.cluster, name_, s_.numerics, s_.all, {}}; }
  const std::string& name_of_node(std::uint32_t n) const { return s_.cluster.nodes[n].name; }
  std::optional<std::uint32_t> node_named(const std::string& name) const;

  // job_host and job_routes: the world hosts the roles.
  void spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me, std::uint32_t generation) override;
  void end(std::uint32_t job) override;
  void open(std::uint32_t, std::vector<std::string>, std::vector<std::uint32_t>) override {}
  void close(std::uint32_t) override {}

  void post(duration after, std::function<void()> what);
  void from_roles(std::function<void()> what);
  // Performs an operation in the job executor's turn; its result is delivered some time later.
  void keep(duration takes, control::work<control::job_executor> what);
  template <control::operation O>
  void request(const O& x) {
    keep(time_of(x), control::work_of(x));
  }
  void deliver(const control::delivery& d);
  template <control::operation O>
  duration time_of(const O&) {
    return range{{}, std::chrono::milliseconds(1)}.drawn(s_.draws);
  }
  duration time_of(const control::check_move&) { return s_.times.plan.drawn(s_.draws); }
  duration time_of(const control::make_plan_order&) { return s_.times.plan.drawn(s_.draws); }
  duration time_of(const control::make_roles&) { return s_.times.roles.drawn(s_.draws); }
  duration time_of(const control::swap_roles&) { return s_.times.roles.drawn(s_.draws); }
  duration time_of(const control::keep_piece&) { return s_.times.roles.drawn(s_.draws); }
  duration time_of(const control::end_roles&) { return s_.times.end.drawn(s_.draws); }
  duration time_of(const control::write_state&);
  duration time_of_state(std::uint64_t bytes) const;
  void tick();
  void receive_up(plane p, std::uint32_t peer, std::uint64_t incarnation);
  void receive_down(plane p, std::uint32_t peer, const std::string& reason);
  void flush();
  void report_state();
  void take_store(std::uint32_t job, const store_effect& e);
  void say(std::uint32_t job, const event_effect& e);

  void perform(const control::to_peer& x);
  template <control::operation O>
  void perform(const O& x) {
    request(x);
  }
  void perform(const control::check_text& x);
  void perform(const control::begin_job& x);
  void perform(const control::tell_job& x);
  void perform(const control::followed_event& x) {
    if (x.what.event.is<step_event>()) book_->reached(control::number_of(x.what.job), x.what.event.step);
    say(x.what.job, x.what.event);
  }
  void perform(const control::suffer&) {}  // the simulation injects its own faults
  void perform(const control::log_line& x) { s_.watch.on_log(node_, x.text); }
  void perform(const control::journal_line& x);
  void perform(const control::connect_data& x);

  daemon_surroundings& s_;
  const std::uint32_t node_, coordinator_;
  const std::string name_;
  const sim_disk disk_;
  const std::uint64_t incarnation_;
  process_agenda when_;
  std::map<std::uint32_t, std::shared_ptr<const prepared_job>> hosted_;  // by job
  std::unique_ptr<control::journal> book_;
  // The plan whose roles the operation in progress has ended. Roles that replace them in the same
  // operation keep the memory of shards.
  std::shared_ptr<const prepared_job> replaced_;
  std::uint64_t new_shard_bytes_ = 0;  // memory that shards have taken so far
  std::optional<control::job_executor> executor_;
  std::optional<control::checker> checker_;
  std::optional<control::cluster_controller> controller_;
  control::member member_;
  control::orders controller_out_;
  control::member_orders member_out_;
  bool draining_ = false, drained_ = false, line_up_ = false, settling_ = false;
  time_point kept_until_{}, answered_until_{}, checked_until_{}, heard_until_{}, reported_{}, dialled_{};
  repl_events said_;
  repl_view published_;
  std::optional<time_point> published_at_;
  std::map<std::uint32_t, std::uint32_t> generations_, swapping_;  // by job: generation of the running plan; of the next one
};

}  // namespace troupe::sim
