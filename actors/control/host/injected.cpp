#include "actors/control/host/injected.hpp"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

namespace troupe::control {
namespace {

// Runs after fork() in a process that had threads, so only async-signal-safe calls are allowed.
[[noreturn]] void stop_and_wake(int process, timespec lasts) {
  if (process > 0) (void)::syscall(SYS_close_range, 0u, static_cast<unsigned>(process) - 1, 0u);
  (void)::syscall(SYS_close_range, static_cast<unsigned>(process) + 1, ~0u, 0u);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // must not block the signals that end the service
  if (::syscall(SYS_pidfd_send_signal, process, SIGSTOP, nullptr, 0u) == 0) {
    while (::nanosleep(&lasts, &lasts) != 0 && errno == EINTR) {
    }
    (void)::syscall(SYS_pidfd_send_signal, process, SIGCONT, nullptr, 0u);
  }
  ::_exit(0);
}

}  // namespace

expected<void> stop_this_process(fault_time lasts) {
  const timespec time{static_cast<time_t>(lasts.count() / 1000), static_cast<long>(lasts.count() % 1000) * 1'000'000};
  const auto process = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0u));
  if (process < 0) return unexpected(error(std::string("pidfd_open: ") + std::strerror(errno)));
  const auto child = ::fork();
  if (child == 0) {
    const auto wakes = ::fork();
    if (wakes == 0) stop_and_wake(process, time);
    ::_exit(wakes < 0 ? 1 : 0);
  }
  const int failed = errno;
  ::close(process);
  if (child < 0) return unexpected(error(std::string("fork: ") + std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return unexpected(error("cannot start the process that wakes this one"));
}

before_write injected_faults::pace() const {
  return [d = disk_] {
    const auto until = d->until.load(std::memory_order_relaxed);
    if (until == 0 || std::chrono::steady_clock::now().time_since_epoch().count() >= until) return;
    std::this_thread::sleep_for(std::chrono::steady_clock::duration(d->by.load()));
  };
}

expected<void> injected_faults::begin(const injection& i) {
  const auto until = std::chrono::steady_clock::now() + i.lasts;
  switch (i.what) {
    case fault_kind::kill: ::kill(::getpid(), SIGKILL); break;
    case fault_kind::stop: return stop_this_process(i.lasts);
    case fault_kind::drop:
      data->drop(until);
      control->drop(until);
      break;
    case fault_kind::delay: data->delay(i.by, until); break;
    case fault_kind::slow_disk:
      disk_->by = std::chrono::steady_clock::duration(i.by).count();
      disk_->until = until.time_since_epoch().count();
      break;
  }
  return {};
}

std::string clock_text(std::chrono::system_clock::time_point t) {
  const auto seconds = std::chrono::system_clock::to_time_t(t);
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace troupe::control
