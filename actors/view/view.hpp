// What a node publishes for people, and how their questions and its answers travel: what the
// control plane, which has the state, and the REPL, which has the words, both need to know. Plain
// values; free of CAF and of the terminal.
//
//   repl_view      nodes, jobs and roles, as they were last published
//   repl_backend   a view, and the few things that can be told: never asks an actor that computes
//   repl_answers   makes a reply of a line; handed to a daemon's control plane, which knows no commands
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/shell/node_host.hpp"
#include "actors/view/events.hpp"
#include "runtime/node/pki/roles.hpp"

namespace troupe {

struct repl_about;  // about.hpp

// A connection of the data plane, as one end has it.
struct repl_link {
  std::string peer, by, why_not;  // by: "tcp", "shm" (runtime/node/net/memory_sharing.hpp); why_not: why nothing is lent
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t shared_in = 0;  // of bytes_in: read in the peer's memory
};

struct repl_node {
  std::string name, address, data_address;
  std::string state;  // "up", "absent", "lost"
  std::uint64_t incarnation = 0;
  std::uint64_t tcp_in = 0, tcp_out = 0;  // bytes of the data plane
  double seconds = 0;                     // in that state
  std::uint64_t lives = 0,
                node_failures = 0;  // its daemons that have joined, and how often one was lost, since the coordinator's began
  std::optional<std::uint64_t> steps_at_risk =
      {};                 // steps of the running job that would be made again if it were lost now; none: it has no part
  std::string note = {};  // who cannot reach it, who goes on without it, from which job it is drained
  std::vector<repl_link> links = {};
};

struct repl_job {
  std::uint32_t id = 0;
  std::string name;
  std::string state;  // "queued", "preparing", "running", "paused", "stopping", "done", "stopped", "preempted", "failed"
  std::uint64_t step = 0, last_step = 0;
  double loss = 0, accuracy = -1, examples_per_s = 0;
  std::string message;  // why it failed, or where its weights are
  std::string weights_sha256;
  std::shared_ptr<const repl_about> about = {};  // its layers and modes; null: not known here
  std::string owner = {};                        // the client that has submitted it; empty: embedded
  std::uint64_t skipped = 0;                     // steps that were left out, their gradient not being finite
  std::uint64_t node_failures = 0;               // that it has survived, since the coordinator's daemon began
  std::int64_t replicas = 1;                     // nodes that have each block of parameters
  std::optional<std::uint64_t> kept = {};        // step of its newest checkpoint
  double kept_seconds = 0;                       // since it was there
  std::optional<std::uint64_t> steps_at_risk =
      {};  // steps to be made again after the loss of whichever node costs most; none: it does not run
  bool over() const { return state == "done" || state == "stopped" || state == "preempted" || state == "failed"; }
};

struct repl_role {
  std::string node;
  role_published what;
};

struct repl_view {
  std::string cluster, node, coordinator;  // of whom we ask; empty cluster: embedded
  double up_seconds = 0;
  std::vector<repl_node> nodes;
  std::vector<repl_job> jobs;
  std::vector<repl_role> roles;
  host_counts dropped;
  std::uint64_t unreadable = 0, wrong_source = 0;  // frames of other nodes that were dropped (shell/router.hpp)
  std::uint64_t events = 0;  // number of the newest event that this view knows of; the log of events may be about to hear of it
};

struct repl_submission {
  std::string file, text;
  std::vector<std::string> overrides;
};

class repl_backend {
 public:
  virtual ~repl_backend() = default;
  virtual repl_view view() const = 0;
  // What the jobs of view() have said lately.
  virtual const repl_events& events() const = 0;
  // Why whoever asks may not do such a thing; empty: it may. Whose job it is, `tell` looks at.
  virtual std::string why_not(right, const std::string& /*doing*/) const { return {}; }
  // Both return an error, or nothing. `tell` passes pause, resume, stop, checkpoint, eval, set,
  // mode or staleness on to the job's coordinator. `submit` leaves `job` at 0 when the answer comes
  // later.
  virtual std::string tell(std::uint32_t job, const command& c) = 0;
  virtual std::string submit(const repl_submission& s, std::uint32_t& job) = 0;
};

struct repl_reply {
  enum class kind : std::uint8_t { ok, failed, usage, quit, later };  // later: somebody else answers (a daemon's `submit`)
  kind how = kind::ok;
  std::string text;       // for people or, in a JSON session, one object a line; no newline at the end
  std::string next = {};  // not empty: the answer goes on; ask this line for the rest, after repl_ask_every
};
constexpr std::chrono::milliseconds repl_ask_every{50};

struct repl_answers {
  // `text`: of a file that the line names, when the caller has read it.
  std::function<repl_reply(repl_backend& of, bool json, const std::string& line, const std::string* text)> line;
  // What `submit` says once the job has been checked.
  std::function<repl_reply(bool json, std::uint32_t job, const std::vector<std::string>& messages)> submitted;
};

}  // namespace troupe
