// The outside of a running cluster: submits a job to the coordinator's daemon, or finds one there
// by its number, and follows it. No CAF, no actors: a program that only submits pays for neither.
// The connection is mutual TLS with the operators' certificate (client.pem, client.key) of the tls
// folder. Errors: values; nothing throws. Deadlines: an address where no daemon answers is named
// after at most `reach_within`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/role.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// What a job tells, as it travels: the event, and the values of it that are words
// ("weights_sha256", "file").
struct job_event {
  std::uint32_t job = 0;
  event_effect event;
  std::vector<std::pair<std::string, std::string>> texts;
};
// One line, no newline: {"event":"step","step":1,...}; `text` becomes "message" (and "where" is its
// leading `place: ` for errors).
std::string to_json(const job_event& e);

// Where a cluster is: its name, its certificates, and the daemon to talk to.
struct cluster_address {
  std::string cluster;  // [cluster] name; empty: read from the CA certificate
  std::string tls_dir;
  std::string address;  // host:port of the daemon
  std::string node;     // its name; empty: whoever answers there
};
// The coordinator's daemon: the first node with the role "coordinator". An empty address when there
// is none.
cluster_address coordinator_of(const cluster_spec& c);

struct cluster_submission {
  enum class beginning : std::uint8_t { fillers, weights, checkpoint };

  cluster_address where;
  std::uint32_t attach = 0;  // the number of the job to follow; 0: one is submitted, and what is below up to `given` says which
  std::string file;          // as the user named it, for messages
  std::string text;          // of the job file
  std::vector<std::string> overrides;
  beginning from = beginning::fillers;
  std::string given;   // the file that it begins with, on this machine; it travels to the coordinator's daemon
  std::string out;     // write the final weights here (safetensors), else in the second place; empty: do not fetch them
  bool follow = true;  // false: return once the job is accepted
  std::chrono::milliseconds reach_timeout{8000};
  // A daemon that is lost while the job is followed may be back: it is asked for the job again for
  // so long.
  std::chrono::milliseconds wait_for_daemon{30000};
};

struct cluster_outcome {
  enum class end : std::uint8_t { done, failed, refused, detached, accepted, preempted };
  end how = end::failed;
  std::uint32_t job = 0;              // its id; 0: none was made
  std::uint32_t number = 0;           // by which people know it
  std::vector<std::string> messages;  // `file:line:col: message`, or why the cluster could not be reached
  // Preempted: stopped, with a checkpoint, because a node that it needs shuts down.
  int exit_code() const { return how == end::refused ? 2 : how == end::failed || how == end::preempted ? 1 : 0; }
};

// Blocks until the job is done or has failed, or `detach` is set (the job then goes on without us).
// `on_event` is called on this thread, for every step that was not dropped on the way, and for
// every other event. A job that is done has failed all the same when its weights, or the checkpoint
// that it stopped with, are not where they belong: `messages` say why and where else they are.
cluster_outcome run_on_cluster(const cluster_submission& what, const std::function<void(const job_event&)>& on_event,
                               const std::atomic<bool>& detach);

}  // namespace troupe
