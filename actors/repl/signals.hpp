// Signal handling of the REPL. Ctrl-C ends the current activity: the line that is being typed, a
// command that follows a job, or a script. SIGTERM and SIGHUP (terminal closed) end the REPL. After
// end_at_once(), while the REPL saves, each of them ends the process at once, except a repetition
// of the signal that ended the REPL (actors/supervision/stop_requests.hpp).
//
// A handler may run on any thread, so it only records the signal and writes to a pipe, which wakes
// wait().
// Threads: only one object may exist at a time. It belongs to the thread that reads lines; the
// static functions may be called by any thread.
#pragma once

#include <chrono>

namespace troupe {

class repl_signals {
 public:
  // Signals that the process ignores (nohup, a background job of a script) stay ignored.
  repl_signals();
  ~repl_signals();
  repl_signals(const repl_signals&) = delete;
  repl_signals& operator=(const repl_signals&) = delete;

  enum class woken { by_input, by_signal, by_time };
  // Blocks until `fd` has input (-1: do not wait for input), a signal arrives, or `within` has
  // passed (negative: no limit).
  woken wait(int fd, std::chrono::milliseconds within);

  // A pending signal that ends the current activity and that take() has not consumed: SIGTERM,
  // SIGHUP or SIGINT; 0: none.
  static int ends();
  // Consumes a pending signal (SIGINT, SIGWINCH, SIGCONT, ...). Returns false if it is not pending.
  static bool take(int signal);

  // As if SIGCONT had arrived: the terminal draws its prompt again. For output of other threads.
  static void ask_to_redraw();

  // From now on SIGINT, SIGTERM and SIGHUP end the process at once, with exit code 128 + number.
  // The signal that has ended the REPL may come again within stop_requests::window without effect.
  void end_at_once();
};

}  // namespace troupe
