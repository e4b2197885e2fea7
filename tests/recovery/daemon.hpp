// A simulated daemon: the control plane's state machines (cluster controller, member), job
// executor, checker and journal, assembled as in actors/control/host/actors.cpp, with roles on a
// role_host. Blocking work takes virtual time, one piece after the other, as in the job executor's
// actor. Files are in a state folder of the machine, which outlives the daemon.
#pragma once

#include <filesystem>
#include <optional>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/controller/member.hpp"
#include "actors/control/executor/checker.hpp"
#include "actors/control/executor/job_executor.hpp"
#include "actors/repl/repl.hpp"
#include "tests/recovery/role_host.hpp"

namespace troupe::recovery {

struct executor_times {
  range plan{std::chrono::milliseconds(1), std::chrono::milliseconds(20)};
  range roles{std::chrono::milliseconds(1), std::chrono::milliseconds(10)};
  range store{std::chrono::milliseconds(1), std::chrono::milliseconds(40)};
};

// What all daemons of a simulation share.
struct surroundings {
  agenda& when;
  sim::random& random;
  wires& net;
  compute_times compute;
  executor_times job_executor;
  const cluster_spec& cluster;
  std::shared_ptr<const tables> all;
  std::shared_ptr<device> dev;
  std::string numerics;
  bool no_fence = false;
};

// Observer of a daemon. All functions are called after the event.
struct watcher {
  virtual ~watcher() = default;
  virtual void on_acted(const acted& a) = 0;
  virtual void on_message(const std::string& node, const std::string& from, const control::message& m) = 0;
  virtual void on_order(const control::order& o) = 0;  // of the cluster controller
  virtual void on_role_event(std::uint32_t job, std::uint32_t plan_generation, const event_effect& e,
                             std::uint32_t generation_now) = 0;
  virtual void on_client_message(const std::string& client, const control::message& m) = 0;
  virtual void on_drained(const std::string& node) = 0;
  virtual void on_log(const std::string& node, const std::string& line) = 0;
  // The event is in the log that answers lines of clients.
  virtual void on_said(const event_effect& e) = 0;
};

// size: one object has all that control_actor shares with the job executor and the checker
class daemon final : public ears {
 public:
  daemon(surroundings& s, watcher& w, std::string node, std::filesystem::path state, std::uint64_t incarnation);
  ~daemon() override;
  daemon(const daemon&) = delete;
  daemon& operator=(const daemon&) = delete;

  const std::string& node() const { return node_; }
  bool coordinates() const { return controller_.has_value(); }
  bool idle() const { return member_.idle() && roles_.idle(); }
  role_host& roles() { return roles_; }
  double slow_disk = 1;
  // SIGSTOP and SIGCONT. Messages that arrive in between wait in the sockets.
  void stop() { when_.stop(); }
  void go_on() { when_.go_on(); }
  void client_says(const std::string& client, control::message m);
  void client_gone(const std::string& client);
  std::string tell(command c);
  void drain();
  // Answers a line of a REPL, by the state that was last published.
  void asks(const std::string& client, const std::string& line, std::function<void(repl_reply)> answer);
  repl_view view() const;  // as it is now

  void on_up(plane p, const std::string& peer, std::uint64_t incarnation) override;
  void on_down(plane p, const std::string& peer, const std::string& reason) override;
  void on_cargo(plane p, const std::string& peer, cargo c) override;

 private:
  class backend;
  using instant = control::instant;
  instant now() const { return instant{} + std::chrono::hours(1) + s_.when.now(); }
  control::job_place place() const { return {s_.cluster, node_, s_.numerics, s_.all, state_}; }
  void post(duration after, std::function<void()> what);
  void from_roles(std::function<void()> what);
  // Performs an operation in the job executor's turn; its result is delivered some time later.
  void keep(const range& takes, control::work<control::job_executor> what);
  template <control::operation O>
  void request(const O& x) {
    keep(time_of(x), control::work_of(x));
  }
  void deliver(const control::delivery& d);
  template <control::operation O>
  range time_of(const O&) const {
    return {{}, std::chrono::milliseconds(1)};
  }
  range time_of(const control::keep_piece&) const { return s_.job_executor.roles; }
  range time_of(const control::check_move&) const { return s_.job_executor.plan; }
  range time_of(const control::make_roles&) const { return s_.job_executor.roles; }
  range time_of(const control::end_roles&) const { return {std::chrono::microseconds(10), std::chrono::milliseconds(5)}; }
  range time_of(const control::make_plan_order&) const { return s_.job_executor.plan; }
  range time_of(const control::swap_roles&) const { return s_.job_executor.roles; }
  range time_of(const control::write_state&) const;
  void tick();
  void receive_up(plane p, const std::string& peer, std::uint64_t incarnation);
  void receive_down(plane p, const std::string& peer, const std::string& reason);
  void handle(plane p, const std::string& peer, cargo c);
  void flush();
  void report_state();
  void take_store(std::uint32_t job, const store_effect& e);

  void perform(const control::to_peer& x);
  template <control::operation O>
  void perform(const O& x) {
    request(x);
  }
  void perform(const control::check_text& x);
  void perform(const control::begin_job& x);
  void perform(const control::tell_job& x) { roles_.command(x.job, x.what); }
  void perform(const control::followed_event& x) { say(x.what.job, x.what.event); }
  void say(std::uint32_t job, const event_effect& e);
  void perform(const control::suffer&) {}  // the simulation injects its own faults
  void perform(const control::log_line& x) { watch_.on_log(node_, x.text); }
  void perform(const control::journal_line& x);
  void perform(const control::connect_data& x);

  surroundings& s_;
  watcher& watch_;
  const std::string node_, coordinator_;
  const std::filesystem::path state_;
  const std::uint64_t incarnation_;
  process_agenda when_;
  role_host roles_;
  std::unique_ptr<control::journal> book_;
  std::optional<control::job_executor> executor_;
  std::optional<control::checker> checker_;
  std::optional<control::cluster_controller> controller_;
  control::member member_;
  control::orders controller_out_;
  control::member_orders member_out_;
  bool draining_ = false, drained_ = false, line_up_ = false, settling_ = false;
  time_point kept_until_{}, answered_until_{}, checked_until_{}, heard_until_{}, reported_{}, dialled_{};
  repl_events said_;
  repl_view published_;  // at most a tick old, as in a daemon
  time_point published_at_{};
  std::map<std::uint32_t, std::uint32_t> generations_, swapping_;  // by job: generation of the running plan; of the next one
};

}  // namespace troupe::recovery
