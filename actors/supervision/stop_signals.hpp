// Signals that stop a process, for all programs of Troupe and for Python. What counts as one
// request is decided by stop_requests.hpp.
//
// A process that a signal has stopped ends with exit code 128 + signal: 130 (SIGINT), 143
// (SIGTERM), 129 (SIGHUP).
#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include "actors/supervision/stop_requests.hpp"

namespace troupe {

constexpr int exit_code_of_signal(int signal) { return 128 + signal; }

// SIGPIPE and SIGXFSZ do not end this process any more: writing to a pipe without a reader fails
// with EPIPE, writing beyond the limit of a file's size with EFBIG, which is handled as a full
// disk.
void ignore_signals_of_writes();

// The time for stop_requests. May be called by a signal handler.
stop_requests::duration signal_time() noexcept;

enum class installs {
  always,
  unless_ignored,  // nohup, a background job of a script: the process was started to live on
  over_default,    // the program around Troupe may have a handler of its own, which is kept
};
// Makes `handler` the handler of a signal; system calls that it interrupts are restarted. `before`:
// the action before, for sigaction(). Returns false if the signal keeps its action.
bool install_handler(int signal, void (*handler)(int), installs when, struct sigaction& before);

// Gives a signal its action from before install_handler(). If a signal is why the process ends, the
// handler stays instead until the process has ended: what else arrives within 2 s is the same
// request, and a later signal ends the process at once.
void remove_handler(int signal, const stop_requests& why, const struct sigaction& before);

class stop_signals {
 public:
  enum class of {
    program,  // SIGINT, SIGTERM, and SIGHUP unless it is ignored
    library,  // SIGTERM and SIGHUP where they would kill the process; SIGINT belongs to the interpreter
  };
  // `first` is called once, on a separate thread, at the first signal. A later one that is not the
  // same request ends the process at once, also when the object is gone. While an object exists,
  // further ones have no effect.
  explicit stop_signals(std::function<void(int signal)> first, of whose = of::program);
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  // True if a signal has asked this process to stop.
  static bool asked() noexcept;
  // The first signal; 0: none has arrived.
  int signal() const;
  // Returns the exit code of a process that would end with `code`.
  int exit_code(int code) const { return signal() == 0 ? code : exit_code_of_signal(signal()); }

 private:
  bool in_use_ = false;  // this object has the handlers
  std::thread thread_;
};

}  // namespace troupe
