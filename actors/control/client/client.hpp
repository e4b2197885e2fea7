// Client of a running cluster: submits a job to the coordinator's daemon, or finds one by its
// number, and follows it. Without CAF, so that a program that only submits does not need it. The
// connection is mutual TLS with the operators' certificate (client.pem, client.key) of the tls
// folder. Errors: values; nothing throws. Deadlines: if no daemon answers, this is reported after
// at most `reach_timeout`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/cluster/job_event.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// A cluster: its name, its certificates and the daemon to connect to.
struct cluster_address {
  std::string cluster;  // [cluster] name; empty: read from the CA certificate
  std::string tls_dir;
  std::string address;  // host:port of the daemon
  std::string node;     // its name; empty: any
};
// The coordinator's daemon: that of the first node with the role "coordinator". The address is
// empty if there is none.
cluster_address coordinator_of(const cluster_spec& c);

// A job as it was accepted by the coordinator's daemon.
struct accepted_job {
  std::uint32_t number = 0;
  std::uint32_t ahead = 0;                                                      // jobs that run or wait before it
  std::uint64_t first_step = 0, last_step = 0, steps_per_epoch = 0, batch = 0;  // batch 0: the daemon does not know them any more
  std::vector<std::string> head;                                                // what runs, as lines of job_head() (runtime/job)
};

struct cluster_submission {
  enum class beginning : std::uint8_t { fillers, weights, checkpoint };

  cluster_address where;
  std::uint32_t attach = 0;  // number of the job to follow; 0: submits the job in `file` to `given`
  std::string file;          // as the user named it, for messages
  std::string text;          // of the job file
  std::vector<std::string> overrides;
  beginning from = beginning::fillers;
  std::string given;   // file on this machine that the job starts from; uploaded to the coordinator's daemon
  std::string out;     // file for the final weights (safetensors), else the second place; empty: not fetched
  bool follow = true;  // false: return once the job is accepted
  // Called once, on the caller's thread, before the job's events.
  std::function<void(const accepted_job&)> on_accepted = {};
  std::chrono::milliseconds reach_timeout{8000};
  // For how long to reconnect to a daemon that was lost while the job is followed.
  std::chrono::milliseconds wait_for_daemon{30000};
};

struct cluster_outcome {
  enum class end : std::uint8_t { done, failed, refused, detached, accepted, preempted };
  end how = end::failed;
  std::uint32_t job = 0;              // its id; 0: none was made
  std::uint32_t number = 0;           // the number that users see
  std::vector<std::string> messages;  // `file:line:col: message`, or why the cluster is not reachable
  // Preempted: stopped with a checkpoint because a node that the job needs shuts down.
  int exit_code() const { return how == end::refused ? 2 : how == end::failed || how == end::preempted ? 1 : 0; }
};

// Blocks until the job is done or has failed, or until `detach` is set; the job continues then.
// `on_event` is called on this thread, for every event except steps that were dropped for a slow
// client. A job that is done counts as failed if its weights, or its last checkpoint, were not
// saved where they belong: `messages` say why and where they are.
cluster_outcome run_on_cluster(const cluster_submission& what, const std::function<void(const job_event&)>& on_event,
                               const std::atomic<bool>& detach);

struct fetch_error {
  std::string text;
  bool wrong = false;  // the caller's mistake: no such job, or no weights
};
// Gets the weights of job `what.attach`, which is over, and writes them to `what.out`. Returns
// their sha256.
expected<std::string, fetch_error> fetch_from_cluster(const cluster_submission& what);

}  // namespace troupe
