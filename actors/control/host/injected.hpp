// Carries out injected faults in this daemon (runtime/cluster/view/injection.hpp). Any thread.
//
// A stopped process cannot wake itself; a grandchild process wakes it. That holds none of the
// daemon's descriptors (such as the lock of the state folder) except a pidfd, so a signal never
// reaches another process with the same number. It is reparented, so it leaves no zombie, and ends
// with the daemon's control group.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/cluster/view/injection.hpp"
#include "runtime/node/net/line_faults.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

class injected_faults {
 public:
  // For the transports of the two planes.
  const std::shared_ptr<net::line_faults> data = std::make_shared<net::line_faults>();
  const std::shared_ptr<net::line_faults> control = std::make_shared<net::line_faults>();
  // Called before disk writes: waits while the disk is slowed. The result may outlive this object.
  before_write pace() const;

  expected<void> begin(const injection& i);  // the fault is active; kill does not return

 private:
  struct disk {
    std::atomic<std::chrono::steady_clock::rep> until{0}, by{0};
  };
  const std::shared_ptr<disk> disk_ = std::make_shared<disk>();
};

// Stops this process for this time.
expected<void> stop_this_process(fault_time lasts);

// Time for log lines, as in "2026-01-02T03:04:05Z".
std::string clock_text(std::chrono::system_clock::time_point t);

}  // namespace troupe::control
