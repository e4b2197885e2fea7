// A fleet: a simulated cluster (runtime/node/simulation/sim_cluster.hpp) for tests. Counts the
// points of a run, so that a test can inject a fault at each of them, and checks invariants that
// hold under all faults; `violations` has what was found:
//   * a role receives no message of another plan of its job, and the cluster controller none from a
//     plan before the running one
//   * a job has exactly one last event, and no event after it
//   * a node failure that a job survives is reported by `recovered`
//   * no step is repeated that is in a checkpoint of which the client was told before the recovery
//   * a job that is over does not begin again, unless the disk of the journal was full
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/repl/repl.hpp"
#include "runtime/node/simulation/sim_cluster.hpp"

namespace troupe::recovery {

using sim::heard_event;
using sim::plane;
using sim::range;

struct compute_times {
  range task{duration{20'000}, std::chrono::milliseconds(1)};  // duration of a role's task
};

struct fleet_config {
  std::uint64_t seed = 1;
  std::uint32_t nodes = 3;
  bool coordinator_works = true;                                            // the coordinator's node also has workers and shards
  std::string job;                                                          // a job file's text
  range data{std::chrono::microseconds(50), std::chrono::milliseconds(2)};  // of a message between roles on its way
  compute_times compute;
  sim::daemon_times times;
  bool logs = false;      // to stdout
  bool no_fence = false;  // a planted mistake: roles receive messages of earlier plans
  sim::tampering wrong;   // further ones
};

sim::cluster_config simulated(const fleet_config& c, std::shared_ptr<const tables> all);

// size: invariants of one run share their state
class fleet final : public sim::daemon_watcher {
 public:
  explicit fleet(fleet_config c, std::shared_ptr<const tables> all);

  // --- faults and commands
  void kill(const std::string& node) { cluster_.kill(index(node)); }
  void lose(const std::string& node) { cluster_.lose(index(node)); }
  void start(const std::string& node) { cluster_.start(index(node)); }
  void stop_for(const std::string& node, duration time) { cluster_.stop_for(index(node), time); }
  void drain(const std::string& node) { cluster_.drain(index(node)); }
  void cut(plane p, const std::string& from, const std::string& to, bool yes) { cluster_.cut(p, index(from), index(to), yes); }
  void suffer(const sim::happening& h) {
    if (h.kind == sim::fault_kind::disk_full) journal_fails_ = true;
    cluster_.suffer(h);
  }
  void tell(const command& c);
  // Sends a line of a REPL to the coordinator's daemon. `answer` is called once: with the reply, or
  // with nullopt if the connection is lost or there is no reply for 10 s.
  void ask(const std::string& client, const std::string& line, std::function<void(const std::optional<repl_reply>&)> answer);
  // Called for every event in the log from which lines are answered; unset: none.
  std::function<void(const event_effect&)> hears;
  // Called when the coordinator's daemon has started again; unset: none.
  std::function<void()> restarted;
  void violated(const std::string& what);
  sim::sim_daemon* at(const std::string& node) { return cluster_.at(index(node)); }
  bool alive(const std::string& node) { return at(node) != nullptr; }
  const std::string& coordinator() const { return names_.front(); }
  const std::vector<std::string>& names() const { return names_; }
  sim::world& when() { return cluster_.hosts(); }
  // Calls `what` right after a role or a daemon has handled message number `point` since the job
  // was accepted. `who`: the node that handled it.
  void after_point(std::uint64_t point, std::function<void(const std::string& who)> what) {
    hooks_.emplace(point, std::move(what));
  }
  std::uint64_t points() const { return points_; }

  // --- running: until the client has received the job's last event, then 90 s more, in which
  // daemons must release the job. Returns false if that takes longer than `most`.
  bool run(duration most);
  bool ended() const { return cluster_.ended(); }
  // A coordinator that restarted does not know the job: its line was not in the journal.
  bool forgotten() const { return forgotten_; }
  const std::vector<heard_event>& events() const { return cluster_.events(); }
  std::size_t count(const std::string& kind) const;
  const heard_event* last() const;                 // done or error
  std::string text(const std::string& key) const;  // of the last event
  const std::vector<std::string>& violations() const { return violations_; }
  const std::vector<std::string>& log() const { return log_; }
  std::uint64_t old_messages() const { return old_; }  // messages of earlier plans that the fence dropped
  time_point submitted_at() const { return cluster_.submitted_at(); }
  std::vector<double> weights() const;  // final ones
  std::string waits();                  // waiting roles and what they wait for

 private:
  void on_message(std::uint32_t node, const control::message& m) override;
  void on_order(const control::order& o) override;
  void on_role_event(std::uint32_t generation, const event_effect& e, std::uint32_t running) override;
  void on_log(std::uint32_t node, const std::string& line) override;
  void on_said(const event_effect& e) override {
    if (hears) hears(e);
  }
  std::uint32_t index(const std::string& node) const;
  void acted(std::uint32_t node, std::uint32_t plan, role_id who, const envelope& e, bool old);
  void heard(const heard_event& e);
  void point(const std::string& who);
  void log_line(const std::string& who, const std::string& line);
  void lose_lines();

  const fleet_config config_;
  sim::random tasks_;
  std::vector<std::string> names_;
  sim::sim_cluster cluster_;
  std::multimap<std::uint64_t, std::function<void(const std::string&)>> hooks_;
  std::uint64_t points_ = 0, old_ = 0;
  bool over_ = false;  // the client has received the last event
  // Lines without a reply, of all other clients.
  struct open_line {
    std::function<void(const std::optional<repl_reply>&)> answer;  // empty: it was called
    std::uint64_t connection = 0;
    void end(const std::optional<repl_reply>& r) {
      if (const auto call = std::exchange(answer, nullptr)) call(r);
    }
  };
  std::vector<std::shared_ptr<open_line>> lines_;
  std::vector<std::string> violations_, log_;
  bool forgotten_ = false;
  bool journal_fails_ = false;              // the end of the job may not have been written
  std::uint64_t saved_ = 0;                 // step of the last checkpoint that the client was told of
  std::uint64_t kept_ = 0;                  // that step when the last recovery began
  bool going_back_ = false, owed_ = false;  // a recovery is prepared; its `recovered` is due
};

}  // namespace troupe::recovery
