// One run of a job on a simulated cluster with a list of faults, and many of them with different
// seeds.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cluster/controller/orders.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/node/simulation/sim_cluster.hpp"
#include "runtime/sim/schedule.hpp"
#include "runtime/sim/storm.hpp"

namespace troupe::sim {

// The recoveries of a simulated job: what its coordinator's daemon reports of each, with the fault
// before it and the first step after it. Pure.
struct recovery {
  recovered_event what;
  std::uint64_t step = 0;             // the job continues after it
  std::optional<time_point> failed;   // the last fault before it was noticed; none: the simulation injected none
  time_point noticed{};               // by the coordinator's daemon
  time_point begun{};                 // all roles are replaced
  std::optional<time_point> stepped;  // the first step is complete
};

class recovery_log {
 public:
  void fault(time_point now) { faults_.push_back(now); }
  // Returns the recovery whose first step this order reports.
  const recovery* take(const control::order& o, time_point now);
  const std::vector<recovery>& all() const { return all_; }

 private:
  std::vector<recovery> all_;
  std::vector<time_point> faults_;  // since the last one that a recovery has taken
};

// How a run ended.
// size: the result of one run
struct run_result {
  enum class end : std::uint8_t {
    done,      // all steps, or the job stopped as it was told to
    failed,    // with an error of the job
    refused,   // the job was refused
    hung,      // not over when the time was up
    cut_short  // by the caller
  };
  end how = end::hung;
  std::string text;                                 // why
  std::string weights_sha256;                       // empty: none
  std::uint64_t steps = 0;                          // of the last event
  time_point begun{}, over{};                       // of the job; virtual
  std::optional<time_point> first_step, last_step;  // when the client received them
  std::vector<double> step_seconds;                 // between consecutive step events of one plan
  std::vector<recovery> recoveries;
  std::uint64_t events = 0;
  fault_counts counts;  // of the wire and of tasks

  std::uint64_t steps_again() const;
  double mean_step() const;  // seconds, between failures; 0: unknown
  // The part of the time between the first step and the last in which steps that count were
  // computed, at the mean time of a step between failures.
  double goodput() const;
};

struct run_options {
  std::vector<happening> faults = {};  // times since the job began
  // Virtual time after which the run is given up. It is also given up if the client hears nothing
  // for 10 minutes and 20 times the longest step.
  duration most = std::chrono::hours(24 * 365);
  std::function<bool()> stops = {};  // true: end now
  // Called after the event.
  std::function<void(const heard_event&)> on_event = {};
  std::function<void(const happening&, time_point)> on_fault = {};
  std::function<void(const recovery&)> on_recovery = {};
  std::function<void(time_point)> on_begin = {};
};

run_result run_cluster(const cluster_config& c, const run_options& o);

// The shape of random faults that hit a job as long as `calm` at any moment.
storm_shape storm_for(const run_result& calm, std::uint32_t nodes);

// What a run with faults must not do. Empty: nothing is wrong. `calm`: the run without faults.
// `same_bits`: the job's mode computes the same weights whatever fails.
std::string judged(const run_result& r, const run_result& calm, bool same_bits);

struct seeds_request {
  std::uint64_t first = 1, last = 1;
  unsigned threads = 1;
  bool same_bits = false;
  duration most = std::chrono::hours(24);
  // `calm`: the run without faults.
  std::function<std::vector<happening>(std::uint64_t seed, const run_result& calm)> faults;
  std::function<bool()> stops = {};
};

struct seeds_result {
  std::uint64_t runs = 0, done = 0, failed = 0, recoveries = 0, steps_again = 0;
  std::uint64_t wrong_seed = 0;   // the smallest with a mistake
  std::string wrong;              // empty: no run did what it must not do
  std::vector<happening> faults;  // of that seed, shrunk
  std::size_t faults_before = 0, shrinking_runs = 0;
};

// Runs all seeds, in parallel. After the first mistake it runs no larger seed, and shrinks the
// faults of the smallest seed with a mistake.
seeds_result run_seeds(const cluster_config& c, const seeds_request& q);

}  // namespace troupe::sim
