// A daemon's own watchdog: it ends one in which those who must be alive are not, where no service
// manager does that sooner. A daemon that goes on answering heartbeats and does nothing else would
// be waited for by all others.
//
// fed() from the actors themselves (control/host/pulse.hpp), any thread. look() from the main
// thread, every second or so: what passes between two looks counts as `most_a_look` at most, since
// a process that was stopped has starved nobody.
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
  // True: nobody has fed it for too long.
  bool look(instant now);

 private:
  std::atomic<std::uint64_t> meals_{0};
  std::uint64_t seen_ = 0;
  std::chrono::duration<double> hungry_{};
  instant last_{};
};

}  // namespace troupe
