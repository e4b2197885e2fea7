// The interface between the control plane, which has the state, and the REPL, which has the
// commands: what a node publishes, and the requests and replies. Plain values; independent of CAF
// and of the terminal.
//
//   repl_view      nodes, jobs and roles, as last published
//   repl_backend   provides a view and passes commands on; never waits for an actor that computes
//   repl_answers   turns a line into a reply; a daemon's control plane gets it, because the control
//                  plane does not depend on the commands
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/access/job_access.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/view/events.hpp"
#include "runtime/cluster/view/gpus.hpp"
#include "runtime/cluster/view/job_state.hpp"
#include "runtime/cluster/view/role_published.hpp"
#include "runtime/trace/recording.hpp"

namespace troupe {

struct repl_about;  // about.hpp
struct injection;   // injection.hpp

// A connection of the data plane, as seen from one end.
struct repl_link {
  std::string peer, by,
      why_not;  // by: "tcp", "shm" (runtime/node/net/memory_sharing.hpp); why_not: why there are no shared buffers
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t shared_in = 0;  // bytes of bytes_in that were read in the peer's memory
  double round_trip = 0;        // seconds to the peer and back; 0: unknown
};

// size: one row of the table of nodes
struct repl_node {
  std::string name, address, data_address;
  std::string state;  // "up", "absent", "lost"
  std::uint64_t incarnation = 0;
  std::uint64_t tcp_in = 0, tcp_out = 0;  // bytes of the data plane
  double seconds = 0;                     // since the node entered this state
  double unheard_seconds = 0;             // since its last report to the coordinator's daemon; 0: this node, or it is not up
  // Daemons of this node that have joined, and failures of the node, since the coordinator's daemon
  // started.
  std::uint64_t lives = 0, node_failures = 0;
  // Steps of the running job that would be repeated if the node failed now; nullopt: the job does
  // not use it.
  std::optional<std::uint64_t> steps_at_risk = {};
  std::string note = {};  // which peer cannot reach it, which job continues without it or has drained it
  std::vector<repl_link> links = {};
  std::vector<repl_gpu> gpus = {};  // that its `devices` name
  std::uint64_t memory = 0;         // bytes that its daemon has in memory; 0: unknown
  // The plan of the running job is without it: it is drained, or it has failed and is used again
  // when it joins.
  bool off = false, drained = false;
};

// A value that a user has changed while the job runs.
struct repl_setting {
  std::string key;                    // "train.dynamics.lr"
  double value = 0;                   // from step `from` on
  std::optional<double> before = {};  // the former value; nullopt: unknown
  std::uint64_t from = 0;
};

// A role or worker that makes the steps slow (straggler_event).
struct repl_straggler {
  std::string role, node;
  double step_ms = 0, peers_ms = 0;
  std::uint64_t step = 0;  // at which it was named
};

// size: one row of the table of jobs
struct repl_job {
  std::uint32_t id = 0;  // the number that users see
  std::string name;
  job_state state = job_state::queued;
  std::uint64_t step = 0, last_step = 0;
  double loss = 0, accuracy = -1, examples_per_s = 0;
  std::string message;  // error, or location of the weights
  std::string weights_sha256;
  std::shared_ptr<const repl_about> about = {};  // layers and modes; null: not available on this node
  job_activity doing = job_activity::none;
  std::string owner = {};                  // client that submitted it; empty: embedded
  std::uint64_t skipped = 0;               // steps skipped because their gradient was not finite
  std::uint64_t node_failures = 0;         // failures that it survived since the coordinator's daemon started
  std::int64_t replicas = 1;               // number of nodes that hold each parameter block
  std::optional<std::uint64_t> kept = {};  // step of its newest checkpoint
  double kept_seconds = 0;                 // age of that checkpoint
  // Steps repeated if the node whose failure costs most failed now; nullopt: the job is not
  // running.
  std::optional<std::uint64_t> steps_at_risk = {};
  // Of the events so far (job_progress.hpp).
  std::string mode = {}, mode_before = {};      // with options, e.g. "ssp staleness=3"; empty: unknown, or not switched
  std::vector<repl_setting> settings = {};      // the last change of each key
  std::optional<double> lr = {};                // learning rate of the last step
  std::optional<std::uint64_t> evaluated = {};  // step of the last evaluation
  std::optional<std::string> folder = {};       // run folder; nullopt: none
  std::vector<repl_straggler> stragglers = {};  // the newest last
  bool over() const { return is_over(state); }
};

struct repl_role {
  std::string node;
  role_published what;
};

struct repl_view {
  std::string cluster, node, coordinator;  // of the queried daemon; empty cluster: embedded
  double up_seconds = 0;
  std::vector<repl_node> nodes;
  std::vector<repl_job> jobs;
  std::vector<repl_role> roles;
  std::vector<repl_gpu> gpus;  // of the queried node
  host_counts dropped;
  std::uint64_t unreadable = 0, wrong_source = 0;  // frames of other nodes that were dropped (shell/router.hpp)
  std::uint64_t events = 0;  // number of the newest event that this view reflects; the event log may not have it yet
  std::uint64_t memory = 0;  // bytes that the queried process has in memory; 0: unknown
  bool may_inject = false;   // the cluster file of the queried node allows faults ([cluster] inject)
};

struct repl_submission {
  std::string file, text;
  std::vector<std::string> overrides;
};

// A measurement that a client requests of a daemon (`troupe doctor`).
struct repl_measurement {
  std::string ticket;         // chosen by the client; the same in all calls for one result
  std::string peer, address;  // of the connection to measure, and where its data plane listens; empty: the machine
  bool busy = false;          // also what disturbs a running job
};

class repl_backend {
 public:
  virtual ~repl_backend() = default;
  virtual repl_view view() const = 0;
  // Recent events of the jobs of view().
  virtual const repl_events& events() const = 0;
  // An error if the client may not use a command that needs this right. `tell` checks the
  // owner of the job.
  virtual expected<void> check(right, const std::string& /*doing*/) const { return {}; }
  // An error if the client may not read this of the job.
  virtual expected<void> check_read(job_route, std::uint32_t /*job*/) const { return {}; }
  // Passes a command (pause, stop, set, mode, ...) on to the job's coordinator. Returns the id that
  // the command gets; one event of events() is its outcome.
  virtual expected<command_id> tell(std::uint32_t job, command c) = 0;
  // Returns the number of the job; 0: the reply comes later.
  virtual expected<std::uint32_t> submit(const repl_submission& s) = 0;
  // Begins to write what the roles do to a trace file; `file` is a path where they run.
  virtual expected<void> start_trace(const std::string& /*file*/) { return unexpected(no_traces()); }
  // Completes that file.
  virtual expected<trace_summary> stop_trace() { return unexpected(error("trace: no trace is being written")); }
  // Writes what the roles did in the last `latest_span` into a file.
  virtual expected<trace_summary> write_latest(const std::string& /*file*/) { return unexpected(no_traces()); }
  static constexpr std::chrono::seconds latest_span{30};
  // Median time of a step of the running job, in seconds; nullopt: unknown.
  virtual std::optional<double> usual_step() const { return std::nullopt; }
  // Measures the machine of the queried node, or its connection with a peer. The result is JSON of
  // machine::facts or machine::link (runtime/node/machine/facts_json.hpp). The first call begins;
  // nullopt: not ready, call again.
  virtual expected<std::optional<std::string>> measure(const repl_measurement&) {
    return unexpected(error("not connected to a cluster: `troupe doctor` examines this machine"));
  }
  // Injects a fault into a node of a cluster.
  virtual expected<void> inject(const injection&) {
    return unexpected(error("inject: not connected to a cluster: faults can only be injected into cluster nodes"));
  }

 private:
  static error no_traces() {
    return error(
        "trace: a daemon writes no traces; use `troupe repl --cluster FILE` or `troupe train --cluster FILE --trace FILE`, which "
        "write "
        "the file where they run");
  }
};

struct repl_reply {
  enum class kind : std::uint8_t { ok, failed, usage, quit, later };  // later: the reply is sent separately (a daemon's `submit`)
  kind how = kind::ok;
  std::string text;       // plain text or, in a JSON session, one object per line; no newline at the end
  std::string next = {};  // line to send after repl_ask_every for the rest of the answer; empty: complete
};
constexpr std::chrono::milliseconds repl_ask_every{50};

struct repl_answers {
  // `text`: contents of the file that the line names; null: not sent.
  std::function<repl_reply(repl_backend& of, bool json, const std::string& line, const std::string* text)> line;
  // The reply to `submit` after the job was checked.
  std::function<repl_reply(bool json, std::uint32_t job, const std::vector<std::string>& messages)> submitted;
};

}  // namespace troupe
