#include "actors/supervision/stop_signals.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace troupe {
namespace {

constexpr std::array stopping_signals = {SIGTERM, SIGHUP, SIGINT};

std::atomic<bool> handlers_in_use{false};
stop_requests stop_asked;
int stop_pipe[2] = {-1, -1};
std::array<struct sigaction, stopping_signals.size()> stop_actions_before;
std::array<bool, stopping_signals.size()> stop_installed{};

// A handler may run on any thread, including threads that a library created before main(), so it
// only writes to a pipe.
void on_stop_signal(int signal) {
  const int kept = errno;
  switch (stop_asked.request(signal, signal_time())) {
    case stop_requests::answer::first: {
      const auto word = static_cast<unsigned char>(signal);
      [[maybe_unused]] const auto written = write(stop_pipe[1], &word, 1);
      break;
    }
    case stop_requests::answer::repeated: break;
    case stop_requests::answer::at_once: _exit(exit_code_of_signal(signal));
  }
  errno = kept;
}

// When the object that was asked to stop is gone, and the process has not ended yet.
stop_requests ending;
std::array<struct sigaction, stopping_signals.size()> actions_before_ending;

void on_signal_while_ending(int signal) {
  if (ending.request(signal, signal_time()) == stop_requests::answer::at_once) _exit(exit_code_of_signal(signal));
}

struct sigaction action_of(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return action;
}

// The action that a signal has without on_signal_while_ending().
void skip_ending_handler(int signal, struct sigaction& before) {
  for (std::size_t i = 0; i < stopping_signals.size(); ++i)
    if (stopping_signals[i] == signal && before.sa_handler == on_signal_while_ending) before = actions_before_ending[i];
}

installs when_of(int signal, stop_signals::of whose) {
  if (whose == stop_signals::of::library) return installs::over_default;
  return signal == SIGHUP ? installs::unless_ignored : installs::always;
}

}  // namespace

void ignore_signals_of_writes() {
  for (const int s : {SIGPIPE, SIGXFSZ}) ::signal(s, SIG_IGN);
}

stop_requests::duration signal_time() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool install_handler(int signal, void (*handler)(int), installs when, struct sigaction& before) {
  const auto action = action_of(handler);
  if (sigaction(signal, nullptr, &before) != 0) return false;
  skip_ending_handler(signal, before);
  const bool simple = (before.sa_flags & SA_SIGINFO) == 0;
  if (when == installs::unless_ignored && simple && before.sa_handler == SIG_IGN) return false;
  if (when == installs::over_default && !(simple && before.sa_handler == SIG_DFL)) return false;
  return sigaction(signal, &action, nullptr) == 0;
}

void remove_handler(int signal, const stop_requests& why, const struct sigaction& before) {
  struct sigaction now {};
  if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == before.sa_handler) return;  // it was not installed
  const auto at = std::find(stopping_signals.begin(), stopping_signals.end(), signal);
  if (why.signal() == 0 || at == stopping_signals.end()) {
    sigaction(signal, &before, nullptr);
    return;
  }
  ending.take_over(why);
  actions_before_ending[static_cast<std::size_t>(at - stopping_signals.begin())] = before;
  const auto action = action_of(on_signal_while_ending);
  sigaction(signal, &action, nullptr);
}

stop_signals::stop_signals(std::function<void(int)> first, of whose) {
  if (handlers_in_use.exchange(true)) return;
  in_use_ = true;
  stop_asked.clear();
  if (pipe2(stop_pipe, O_CLOEXEC) != 0) return;  // without a pipe, signals keep their default actions
  thread_ = std::thread([first = std::move(first), end = stop_pipe[0]] {
    unsigned char word = 0;
    ssize_t got = 0;
    do got = read(end, &word, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1 && word != 0) first(word);
  });
  for (std::size_t i = 0; i < stopping_signals.size(); ++i) {
    const int s = stopping_signals[i];
    if (s == SIGINT && whose == of::library) continue;
    stop_installed[i] = install_handler(s, on_stop_signal, when_of(s, whose), stop_actions_before[i]);
  }
}

stop_signals::~stop_signals() {
  if (!in_use_) return;
  if (thread_.joinable()) {
    for (std::size_t i = 0; i < stopping_signals.size(); ++i)
      if (std::exchange(stop_installed[i], false)) remove_handler(stopping_signals[i], stop_asked, stop_actions_before[i]);
    const unsigned char enough = 0;
    [[maybe_unused]] const auto written = write(stop_pipe[1], &enough, 1);
    thread_.join();
    for (int& end : stop_pipe) {
      close(end);
      end = -1;
    }
  }
  handlers_in_use = false;
}

bool stop_signals::asked() noexcept { return stop_asked.signal() != 0 || ending.signal() != 0; }

int stop_signals::signal() const { return in_use_ ? stop_asked.signal() : 0; }

}  // namespace troupe
