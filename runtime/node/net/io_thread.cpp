#include "runtime/node/net/io_thread.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <exception>

namespace troupe::net {

namespace {

// What arrives or leaves takes microseconds, and all who compute wait for it at a step's end.
// Kernels that deal out time by deadlines (Linux 6.6, EEVDF) let a thread that is woken beside
// computing ones wait for a slice of theirs, some milliseconds. So this one asks for the shortest
// slice that there is (since 6.12) and, where it may, for a higher weight (CAP_SYS_NICE or
// RLIMIT_NICE; the systemd unit has it). A kernel that knows neither says so, and nothing is
// changed.
void be_prompt() noexcept {
  struct {  // the kernel's sched_attr, whose header clashes with the library's
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } wish{};
  constexpr std::int32_t better = 5;
  const std::int32_t nice = ::getpriority(PRIO_PROCESS, 0);
  wish.size = sizeof wish;
  wish.runtime = 100'000;  // ns
  for (const auto n : {nice - better, nice}) {
    wish.nice = n;
    if (::syscall(SYS_sched_setattr, 0, &wish, 0U) == 0) return;
  }
}

}  // namespace

void io_thread::run() {
  // Signals are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "troupe-net");
}

void io_thread::loop() noexcept {
  be_prompt();
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception& e) {
      try {
        log_(std::string("[net] an exception reached the I/O loop: ") + e.what());
      } catch (...) {  // a log that throws is not worth dying for
      }
    } catch (...) {
    }
  }
}

void io_thread::join() {
  if (std::this_thread::get_id() == thread_.get_id()) return;
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace troupe::net
