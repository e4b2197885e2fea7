// A simulated cluster: machines with a daemon each, the connections between them, a client that
// submits one job and follows it, and faults. The roles and the network are those of a world.
// Deterministic in virtual time: the same seed gives the same run.
// Threads: one; several clusters may run in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/node/simulation/sim_daemon.hpp"
#include "runtime/sim/schedule.hpp"

namespace troupe::sim {

struct cluster_config {
  world_config world;  // its seed is that of all draws
  daemon_times times;
  cluster_spec cluster;
  control::job_text job;
  std::shared_ptr<const tables> all;
  std::shared_ptr<device> dev;
  std::string numerics;
  // Makes what all nodes of one cluster get the job's plans from; empty: they read the job's text
  // as daemons do. May be called by several threads.
  std::function<std::shared_ptr<control::job_preparer>()> plans = {};
  tampering wrong = {};  // mistakes on purpose
};

// An event of the job, as its client receives it.
// size: mirrors control::said
struct heard_event {
  std::string kind, text;
  std::uint64_t step = 0;
  std::vector<std::pair<std::string, double>> values;
  std::vector<std::pair<std::string, std::string>> texts;
  time_point when{};
};

// The last event of a job: done, error, or preempted for good. A job whose daemon shuts down
// continues when the daemon is back.
bool is_last(const heard_event& e);

// size: machines, client and faults of one run share their state
class sim_cluster final : daemon_watcher {
 public:
  explicit sim_cluster(cluster_config c);

  // --- faults
  void kill(std::uint32_t node);  // only the daemon: its connections close
  void lose(std::uint32_t node);  // the machine: its peers get no notification
  void start(std::uint32_t node);
  void stop_for(std::uint32_t node, duration time);  // SIGSTOP, then SIGCONT
  void drain(std::uint32_t node);                    // SIGTERM; the daemon ends once it is drained
  void cut(plane p, std::uint32_t from, std::uint32_t to, bool yes);
  // Carries out a fault now, and its end later.
  void suffer(const happening& h);
  // Carries out faults at their times since the job began, as long as it is not over. Called before
  // the first event.
  void plan(std::vector<happening> faults) { planned_ = std::move(faults); }

  sim_daemon* at(std::uint32_t node) { return machines_.at(node).daemon.get(); }  // null: it does not run
  std::uint32_t coordinator() const { return coordinator_; }
  const std::string& name_of(std::uint32_t node) const { return config_.cluster.nodes[node].name; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(machines_.size()); }
  world& hosts() { return world_; }
  random& draws() { return draws_; }
  const named_tensors& weights() const { return weights_; }  // final ones, once the coordinator role has them
  // Number of the coordinator daemon's connections to its clients: raised when it ends.
  std::uint64_t connection() const { return connection_; }

  // --- running
  // Handles the next event. Returns false if there is none.
  bool step();
  bool submitted() const { return number_ != 0; }
  time_point submitted_at() const { return submitted_at_; }
  std::optional<time_point> begun_at() const { return begun_at_; }  // of the first step's grant
  bool ended() const { return ended_; }
  std::string waits();  // the first waiting roles, and what they wait for
  const std::vector<heard_event>& events() const { return events_; }
  // Calls `what` between two events, before the next one.
  void soon(std::function<void()> what) { soon_.push_back(std::move(what)); }

  // Called after the event; unset: not called.
  std::function<void(const heard_event&)> on_event;    // received by the client
  std::function<void(const std::string&)> on_refusal;  // the job was refused
  std::function<void(std::uint32_t node)> on_start;
  std::function<void(const happening&)> on_fault;  // of plan(), before it is carried out
  daemon_watcher* watch = nullptr;

 private:
  struct machine {
    std::unique_ptr<sim_daemon> daemon;
    sim_disk disk;
    std::uint64_t lives = 0;
    std::multiset<double> slow_disk, slow_tasks;  // factors of the faults that have not ended
    std::uint32_t full_disk = 0;                  // number of such faults
    std::optional<time_point> starts_at;          // a daemon that leaves starts again then, or when it has left
  };
  void on_message(std::uint32_t node, const control::message& m) override;
  void on_order(const control::order& o) override;
  void on_role_event(std::uint32_t generation, const event_effect& e, std::uint32_t running) override;
  void on_client_message(const std::string& client, const control::message& m) override;
  void on_drained(std::uint32_t node) override;
  void on_log(std::uint32_t node, const std::string& line) override;
  void on_said(const event_effect& e) override;
  void end_daemon(std::uint32_t node, bool silently);
  void cut_or_mend(const happening& h, bool yes);
  void fill_disk(std::uint32_t node, bool begins);
  void slow_disk(std::uint32_t node, double factor, bool begins);
  void slow_tasks(std::uint32_t node, double factor, bool begins);
  void client_hears(const control::message& m);
  void client_asks();
  void begin();

  const cluster_config config_;
  const std::uint32_t coordinator_;
  random draws_;
  world world_;
  lines net_;
  daemon_surroundings around_;
  std::vector<machine> machines_;
  std::vector<happening> planned_;
  std::vector<std::function<void()>> soon_;
  std::map<std::tuple<plane, std::uint32_t, std::uint32_t>, std::uint32_t> cuts_;  // number of cuts of each way
  // the client
  std::uint32_t job_ = 0;     // the id with the tag of the current daemon
  std::uint32_t number_ = 0;  // 0: not accepted yet
  std::uint64_t asked_ = 0, connection_ = 0;
  time_point submitted_at_{}, heard_until_{};
  std::optional<time_point> begun_at_;
  bool ended_ = false;
  std::vector<heard_event> events_;
  named_tensors weights_;
};

}  // namespace troupe::sim
