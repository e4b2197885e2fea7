// What a fault that a person injects does to this daemon (actors/view/injection.hpp). Any thread.
//
// A stopped process cannot wake itself. A grandchild does, which has no descriptor of ours (the
// lock of the state folder among them) but one of the process, so that a signal never reaches
// another of its number; it is nobody's zombie, and goes with the daemon's control group.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "actors/view/injection.hpp"
#include "runtime/node/net/line_faults.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe::control {

class injected_faults {
 public:
  // Of the transports of either plane.
  const std::shared_ptr<net::line_faults> data = std::make_shared<net::line_faults>();
  const std::shared_ptr<net::line_faults> control = std::make_shared<net::line_faults>();
  // Of who writes to the disk: waits while that is slow. Outlives this.
  before_write pace() const;

  std::string begin(const injection& i);  // an error, or it is on; kill does not return

 private:
  struct disk {
    std::atomic<std::chrono::steady_clock::rep> until{0}, by{0};
  };
  const std::shared_ptr<disk> disk_ = std::make_shared<disk>();
};

// Stops this process, until the time is over.
std::string stop_this_process(fault_time lasts);

// Of a log: "2026-01-02T03:04:05Z".
std::string clock_text(std::chrono::system_clock::time_point t);

}  // namespace troupe::control
