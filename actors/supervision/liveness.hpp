// Whether the actors of a daemon are alive, from what they answer when they are asked: for the
// watchdog of whoever has started the daemon. Pure but for being told the time.
//
//   control     asks, and so is alive when it does
//   repl        answers from what is published: 20 s, also on a machine that is out of breath
//   exchange    sums large buffers: 60 s
//   keeper      does one thing at a time, and that may be a checkpoint of a hundred gigabytes. While it works it is not hung: it is so when it has
//               not answered for ten minutes in which its thread has not run either. A disk that takes longer for one sync() is none
//
// The checker is not asked: it reads what strangers have written, and a job that it never finishes
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

  // Who has to be asked now: whoever has answered the time before, a second ago or longer.
  bool ask(watched_actor who, instant now);
  void answered(watched_actor who, instant now);
  // How long this actor's thread has run on a core in all.
  void ran(watched_actor who, std::chrono::nanoseconds in_all, instant now);
  // Who is hung, and since when; nothing: all are alive.
  std::optional<std::string> hung(instant now) const;

 private:
  struct one {
    bool waiting = false;
    instant asked{}, moved{};  // moved: last seen to run
    std::chrono::nanoseconds ran{0};
  };
  std::array<one, watched_actors> all_;
};

}  // namespace troupe
