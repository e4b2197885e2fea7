#include "actors/repl/signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "actors/supervision/stop_signals.hpp"

namespace troupe {
namespace {

constexpr std::array caught_signals = {SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGCONT};
constexpr std::size_t signals_that_end = 3;  // the first ones of `caught_signals`

std::array<std::atomic<bool>, caught_signals.size()> signals_noted{};
std::array<struct sigaction, caught_signals.size()> handlers_before{};
std::atomic<bool> ends_at_once{false};
stop_requests end_requests;  // of the signals that end
int wake_ends[2] = {-1, -1};

void note_signal(int signal) {
  const int kept = errno;
  for (std::size_t i = 0; i < caught_signals.size(); ++i) {
    if (caught_signals[i] != signal) continue;
    if (i < signals_that_end) {
      const bool saving = ends_at_once;
      if (!saving) end_requests.clear();  // the last one counts: Ctrl-C may only clear a line
      const auto answer = end_requests.request(signal, signal_time());
      if (saving && answer == stop_requests::answer::at_once) _exit(exit_code_of_signal(signal));
      if (saving) continue;
    }
    signals_noted[i] = true;
  }
  [[maybe_unused]] const auto written = write(wake_ends[1], "", 1);
  errno = kept;
}

}  // namespace

repl_signals::repl_signals() {
  for (auto& n : signals_noted) n = false;
  ends_at_once = false;
  end_requests.clear();
  if (pipe2(wake_ends, O_CLOEXEC | O_NONBLOCK) != 0) return;  // without a pipe, signals keep their default actions
  for (std::size_t i = 0; i < caught_signals.size(); ++i)
    install_handler(caught_signals[i], note_signal, installs::unless_ignored, handlers_before[i]);
}

repl_signals::~repl_signals() {
  if (wake_ends[0] < 0) return;
  for (std::size_t i = 0; i < caught_signals.size(); ++i) remove_handler(caught_signals[i], end_requests, handlers_before[i]);
  for (int& end : wake_ends) {
    close(end);
    end = -1;
  }
}

repl_signals::woken repl_signals::wait(int fd, std::chrono::milliseconds within) {
  std::array<pollfd, 2> fds{{{fd, POLLIN, 0}, {wake_ends[0], POLLIN, 0}}};
  // A poll that any signal interrupts counts as woken by a signal.
  const int ready = poll(fds.data(), fds.size(), static_cast<int>(within.count()));
  if (ready == 0) return woken::by_time;
  if (ready > 0 && fds[1].revents == 0) return woken::by_input;
  std::array<char, 64> drained;
  while (read(wake_ends[0], drained.data(), drained.size()) > 0) {
  }
  return woken::by_signal;
}

int repl_signals::ends() {
  for (std::size_t i = 0; i < signals_that_end; ++i)
    if (signals_noted[i]) return caught_signals[i];
  return 0;
}

bool repl_signals::take(int signal) {
  for (std::size_t i = 0; i < caught_signals.size(); ++i)
    if (caught_signals[i] == signal) {
      if (end_requests.signal() == signal) end_requests.clear();  // it did not end the REPL
      return signals_noted[i].exchange(false);
    }
  return false;
}

void repl_signals::ask_to_redraw() {
  if (wake_ends[1] >= 0) note_signal(SIGCONT);
}

void repl_signals::end_at_once() {
  end_requests.stopping();  // if no signal ended the REPL
  ends_at_once = true;
}

}  // namespace troupe
