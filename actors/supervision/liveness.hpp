// Decides whether the actors of a daemon are alive, from their answers to pings; for the watchdog
// of the service manager. Pure; the caller supplies the time.
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

  // Returns true if this actor must be pinged now: it has answered the last ping, which was sent at
  // least 1 s ago. The ping then counts as sent.
  bool ask(watched_actor who, instant now);
  void answered(watched_actor who, instant now);
  // `in_all`: CPU time of this actor's thread so far.
  void ran(watched_actor who, std::chrono::nanoseconds in_all, instant now);
  // An error that names an actor that hangs, and since when. Nullopt: all are alive.
  std::optional<std::string> hung(instant now) const;

 private:
  struct one {
    bool waiting = false;
    instant asked{}, moved{};  // moved: when it last answered or its thread was seen to run
    std::chrono::nanoseconds ran{0};
  };
  std::array<one, watched_actors> all_;
};

}  // namespace troupe
