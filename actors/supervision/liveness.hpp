// Decides whether the actors of a daemon are alive, from their answers to pings; for the watchdog
// of the service manager. Pure; the caller supplies the time. The time between two looks counts as
// at most `max_a_look`: a process that a slow machine or a stop keeps from running cannot answer
// either, and is not hung.
//
//   control     sends the pings, so it is alive if it does
//   repl        answers from published state: 20 s, which allows for an overloaded machine
//   exchange    sums large buffers: 60 s
//   executor    handles one request at a time, which may be a checkpoint of 100 GB. It is hung if
//               it has not answered for 600 s in which its thread has not run either. Disks that
//               take longer for one sync() are not supported
//
// The checker gets no pings: it reads untrusted job files, and a submission that it never finishes
// must not end the daemon.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

enum class watched_actor : std::uint8_t { repl, exchange, job_executor };
constexpr std::size_t watched_actors = 3;

class liveness {
 public:
  using instant = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds max_a_look{500};

  // Returns true if this actor must be pinged now: it has answered the last ping, which was sent at
  // least 1 s ago. The ping then counts as sent.
  bool ask(watched_actor who, instant now);
  void answered(watched_actor who);
  // `in_all`: CPU time of this actor's thread so far.
  void ran(watched_actor who, std::chrono::nanoseconds in_all);
  // Called about ten times a second. An error that names an actor that hangs, and since when.
  // Nullopt: all are alive.
  std::optional<std::string> look(instant now);

 private:
  struct one {
    bool waiting = false;
    instant asked{};
    std::chrono::nanoseconds still{0};  // since it was asked, or its thread was last seen to run
    std::chrono::nanoseconds ran{0};
  };
  std::array<one, watched_actors> all_;
  instant looked_{};
};

}  // namespace troupe
