// A node's daemon without its command line: node_host, router, the two transports and the control
// plane's actors.
//
//   control transport  listens on the node's address; daemons and operators connect; frames go to
//                      control_actor, repl_actor and exchange_actor
//   data transport     listens on the same host, on any port, which join announces; daemons
//                      connect; frames go to the router, which delivers to roles
//   control_actor      detached; hosts the state machines `member` and, on the coordinator's node,
//                      `cluster_controller`
//   operation_actor    two of them, detached. That of the job executor does blocking work for the
//                      running job: makes its plan, spawns and ends roles, writes weights. That of
//                      the checker reads submissions, which may take long; only submissions wait
//                      for it
//   repl_actor         detached, so that it answers while all cores train; from published state
//   exchange_actor     detached; hosts the hub of the exchange, for external training loops
//                      (runtime/exchange)
//
// Control messages use this transport and not CAF's BASP (docs/measurements/control_plane.md). The
// actors are CAF's. This header does not include CAF. Errors: values; no exception leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

struct metrics_facts;  // actors/metrics/page.hpp

struct control_plane_options {
  cluster_spec cluster;
  std::string node;
  std::shared_ptr<const tables> all;
  std::filesystem::path state;  // folders with checkpoints and weights are made here
  std::uint64_t incarnation = 1;
  bool may_inject = false;            // users with the role admin may inject faults (runtime/cluster/view/injection.hpp)
  bool shares_memory = true;          // large tensors go through shared buffers on one machine (net/memory_sharing.hpp)
  std::uint64_t exchange_memory = 0;  // bytes that clients of the exchange may reserve; 0: a share of the process's memory
  repl_answers answers;               // to lines from REPLs
  std::function<void(const std::string& line)> log;  // any thread
  // Called ten times a second on the control actor's thread, while all watched actors answer
  // (liveness.hpp).
  std::function<void()> on_alive = {};
  // Called once, on an actor's thread, when after drain() no job runs here. `whole`: their results
  // are all saved where they belong.
  std::function<void(bool whole)> on_drained;
  // Called by any thread when a role has failed because this process has lost a GPU (ops/gpu.hpp).
  // The role's failure is then not reported.
  std::function<void()> on_lost_gpu = {};
};

struct listening_ports {
  std::uint16_t control = 0, data = 0;
};

class control_plane {
 public:
  // Listens on both ports. Joining the cluster then proceeds in the background.
  static expected<std::unique_ptr<control_plane>, coded_error> open(control_plane_options o);
  ~control_plane();
  control_plane(const control_plane&) = delete;
  control_plane& operator=(const control_plane&) = delete;

  listening_ports ports() const;
  // Any thread. drain: jobs that use this node stop at a boundary, with a checkpoint. checkpoint:
  // the running job writes one.
  void drain();
  void checkpoint();
  // For /metrics (actors/metrics). Any thread; they wait for no actor.
  metrics_facts facts() const;
  std::vector<role_published> roles() const;  // on this node
  // For the browser page (actors/page): on the coordinator's daemon, the state of the cluster, and
  // the way of commands by `who`. Answers any thread and waits for no actor. This object must
  // outlive it.
  std::unique_ptr<repl_backend> backend(person who);
  // Gives memory that has been unused since the last call back to the system.
  void release_unused();
  // As net::transport::reload_certificates, for both planes.
  expected<void, coded_error> reload_certificates();

 private:
  struct impl;
  explicit control_plane(std::unique_ptr<impl> p);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
