// A daemon's own watchdog: detects that a watched actor hangs, so that the daemon can exit if no
// service manager ends it sooner. Otherwise all other nodes would wait for a daemon that only
// answers heartbeats.
//
// Threads: the actors call fed() (control/host/actors.cpp), from any thread. The main thread calls
// look() about once a second. The time between two calls counts as at most `max_a_look`, so that
// time in which the process was stopped does not count.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace troupe {

class watchdog {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::duration<double> patience = std::chrono::seconds(60), max_a_look = std::chrono::seconds(2);

  void fed() { ++meals_; }
  // Returns true if fed() has not been called for longer than `patience`.
  bool look(instant now);

 private:
  std::atomic<std::uint64_t> meals_{0};
  std::uint64_t seen_ = 0;
  std::chrono::duration<double> hungry_{};
  instant last_{};
};

}  // namespace troupe
