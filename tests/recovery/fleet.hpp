// A fleet: simulated machines with a daemon each, the wires between them, a client that has
// submitted one job, and faults. Deterministic in virtual time: the same seed gives the same run.
//
// Checks invariants that hold under all faults; `violations` has what was found:
//   * a role receives no message of another plan of its job, and the cluster controller none from a
//     plan before the running one
//   * a job has exactly one last event, and no event after it
//   * a node failure that a job survives is reported by `recovered`
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/recovery/daemon.hpp"

namespace troupe::recovery {

struct fleet_config {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  bool coordinator_works = true;  // the coordinator's node also has workers and shards
  std::string job;                // a job file's text
  wire_times net;
  compute_times compute;
  executor_times job_executor;
  bool logs = false;      // to stdout
  bool no_fence = false;  // a planted bug: roles receive messages of earlier plans
};

// size: cluster, client and invariants of one run share their state
class fleet final : public watcher {
 public:
  explicit fleet(fleet_config c, std::shared_ptr<const tables> all);
  ~fleet() override;

  // --- faults and commands
  void kill(const std::string& node);  // only the daemon: its connections close
  void lose(const std::string& node);  // the machine: its peers get no notification
  void start(const std::string& node);
  void stop_for(const std::string& node, duration time);  // SIGSTOP, then SIGCONT
  void drain(const std::string& node);                    // SIGTERM; the daemon ends once it is drained
  void cut(plane p, const std::string& from, const std::string& to, bool yes);
  void tell(command c);
  // Sends a line of a REPL to the coordinator's daemon. `answer` is called once: with the reply, or
  // with nullopt if the connection is lost or there is no reply for 10 s.
  void ask(const std::string& client, const std::string& line, std::function<void(std::optional<repl_reply>)> answer);
  // Called for every event in the log from which lines are answered; unset: none.
  std::function<void(const event_effect&)> hears;
  // Called when the coordinator's daemon has started again; unset: none.
  std::function<void()> restarted;
  void violated(const std::string& what);
  daemon* at(const std::string& node);
  bool alive(const std::string& node) const { return machines_.at(node).daemon != nullptr; }
  const std::string& coordinator() const { return names_.front(); }
  const std::vector<std::string>& names() const { return names_; }
  agenda& when() { return agenda_; }
  sim::random& random() { return random_; }
  // Calls `what` right after a role or a daemon has handled message number `point` since the job
  // was accepted. `who`: the node that handled it.
  void after_point(std::uint64_t point, std::function<void(const std::string& who)> what) {
    hooks_.emplace(point, std::move(what));
  }
  std::uint64_t points() const { return points_; }

  // --- running: until the client has received the job's last event, then 90 s more, in which
  // daemons must release the job. Returns false if that takes longer than `most`.
  bool run(duration most);
  bool ended() const { return ended_; }

  struct announced {
    std::string kind, text;
    std::uint64_t step = 0;
    std::vector<std::pair<std::string, double>> values;
    std::vector<std::pair<std::string, std::string>> texts;
    time_point when{};
  };
  const std::vector<announced>& events() const { return events_; }
  std::size_t count(const std::string& kind) const;
  const announced* last() const;                   // done or error
  std::string text(const std::string& key) const;  // of the last event
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<std::string>& log() const { return log_; }
  std::uint64_t old_messages() const { return old_; }  // messages of earlier plans that the fence dropped
  time_point submitted_at() const { return submitted_at_; }
  std::vector<double> weights() const;  // of the file in the coordinator's folder
  std::string waits() const;            // waiting roles and what they wait for

 private:
  struct machine {
    std::unique_ptr<recovery::daemon> daemon;
    std::filesystem::path state;
    std::uint64_t lives = 0;
    bool leaves = false;
  };
  void on_acted(const acted& a) override;
  void on_message(const std::string& node, const std::string& from, const control::message& m) override;
  void on_order(const control::order& o) override;
  void on_role_event(std::uint32_t job, std::uint32_t plan_generation, const event_effect& e,
                     std::uint32_t generation_now) override;
  void on_client_message(const std::string& client, const control::message& m) override;
  void on_drained(const std::string& node) override;
  void on_log(const std::string& node, const std::string& line) override;
  void on_said(const event_effect& e) override {
    if (hears) hears(e);
  }
  void stop(const std::string& node, bool silently);
  void point(const std::string& who);
  void client_hears(const control::message& m);
  void client_asks();

  fleet_config config_;
  agenda agenda_;
  sim::random random_;
  cluster_spec cluster_;
  wires net_;
  surroundings around_;
  std::vector<std::string> names_;
  std::map<std::string, machine> machines_;
  std::filesystem::path folder_;
  std::multimap<std::uint64_t, std::function<void(const std::string&)>> hooks_;
  std::vector<std::function<void()>> now_;  // to run between two events
  std::uint64_t points_ = 0, old_ = 0, asked_ = 0;
  // the client
  std::uint32_t job_ = 0;  // the id with the tag of the current daemon
  std::uint32_t number_ = 0;
  time_point submitted_at_{}, heard_until_{};
  std::uint64_t connection_ = 0;
  bool ended_ = false, counting_ = false;
  // Lines without a reply, of all other clients.
  struct open_line {
    std::function<void(std::optional<repl_reply>)> answer;  // empty: it was called
    void end(std::optional<repl_reply> r) {
      if (auto call = std::exchange(answer, nullptr)) call(std::move(r));
    }
  };
  std::vector<std::shared_ptr<open_line>> lines_;
  std::vector<announced> events_;
  std::vector<std::string> violations_, log_;
  bool going_back_ = false, owed_ = false;  // a recovery is prepared; its `recovered` is due
};

}  // namespace troupe::recovery
