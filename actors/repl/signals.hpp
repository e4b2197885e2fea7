// Signals as the REPL takes them. Ctrl-C ends what is under way: the line that is being typed, a
// command that follows a job, a script. SIGTERM and SIGHUP (the terminal is gone) end the REPL.
// Each of them ends the process at once while the REPL is saving (end_at_once).
//
// A handler may run on any thread, so all it does is note the signal and write to a pipe, which
// wakes wait().
// Threads: one object at a time. It belongs to the thread that reads lines; the static functions
// may be called by any thread.
#pragma once

#include <chrono>

namespace troupe {

class repl_signals {
 public:
  // A signal that the process ignores (nohup, a background job of a script) stays ignored.
  repl_signals();
  ~repl_signals();
  repl_signals(const repl_signals&) = delete;
  repl_signals& operator=(const repl_signals&) = delete;

  enum class woken { by_input, by_signal, by_time };
  // Until `fd` has input (-1: no input is expected), a signal has come, or `within` is over
  // (negative: no limit).
  woken wait(int fd, std::chrono::milliseconds within);

  // The signal that ends what is under way, as long as it has not been taken: SIGTERM, SIGHUP or
  // SIGINT; 0: there is none.
  static int ends();
  // True once for a signal that came: SIGINT, SIGWINCH, SIGCONT, ...
  static bool take(int signal);

  // From now on SIGINT, SIGTERM and SIGHUP end the process at once, with exit code 128 + number.
  void end_at_once();
};

}  // namespace troupe
