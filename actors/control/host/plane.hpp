// A node's daemon, less its command line: node_host, router, the two transports and the control
// plane's actors, put together.
//
//   control transport   listens on the node's address; daemons and operators         -> control_actor, repl_actor, exchange_actor
//   data transport      listens on the same host, any port, told at join; daemons    -> router -> roles
//   control_actor       detached; hosts the state machines `member` and, on the coordinator's node, `cluster_controller`
//   executor_actor        detached; does what blocks for the job that runs: makes its plan, spawns and ends roles, writes weights
//   checker_actor       detached; reads submissions, which may take long, and nothing waits for it but them
//   repl_actor          detached; answers from published state, while all cores train
//   exchange_actor      detached; hosts the hub where processes with training loops of their own meet (runtime/exchange)
//
// Control messages travel over our own transport, not CAF's BASP:
// docs/measurements/control_plane.md says what was measured. The actors are CAF's. Free of CAF
// headers. Errors: values; no exception leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/view/view.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

struct control_plane_options {
  cluster_spec cluster;
  std::string node;
  std::shared_ptr<const tables> all;
  std::filesystem::path state;  // checkpoints and weights go into folders there
  std::uint64_t incarnation = 1;
  bool may_inject = false;            // people of the role admin, faults (actors/view/injection.hpp)
  bool shares_memory = true;          // large tensors are lent to nodes of this machine (net/memory_sharing.hpp)
  std::uint64_t exchange_memory = 0;  // bytes that clients of the exchange may reserve; 0: a share of the process's memory
  repl_answers answers;               // to people's lines
  std::function<void(const std::string& line)> log;  // any thread
  // The control actor, and who else must be alive for it, are (liveness.hpp): ten times a second,
  // on the control actor's thread.
  std::function<void()> on_alive = {};
  // No job runs here any more, after drain(). `whole`: all that they left is where it belongs.
  // Called on an actor's thread, once.
  std::function<void(bool whole)> on_drained;
};

struct listening_ports {
  std::uint16_t control = 0, data = 0;
};

class control_plane {
 public:
  // Listens; joining goes on by itself from here.
  static net::expected<std::unique_ptr<control_plane>> open(control_plane_options o);
  ~control_plane();
  control_plane(const control_plane&) = delete;
  control_plane& operator=(const control_plane&) = delete;

  listening_ports ports() const;
  // Any thread. drain: jobs that use this node stop at a boundary, with a checkpoint. checkpoint:
  // the running job, now.
  void drain();
  void checkpoint();
  // Gives memory that has been unused since the last call back to the system.
  void release_unused();
  // As net::transport has it, on both planes.
  net::expected<void> reload_certificates();

 private:
  struct impl;
  explicit control_plane(std::unique_ptr<impl> p);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
