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

// Raises the priority of the calling thread. Its work takes microseconds, and all computing threads
// wait for it at the end of a step. Schedulers with deadlines (EEVDF, Linux 6.6) let a woken thread
// wait for a time slice of the computing threads, some milliseconds. So this thread requests the
// shortest time slice (Linux 6.12) and, if permitted, a higher weight (CAP_SYS_NICE or RLIMIT_NICE;
// the systemd unit has it). A kernel without these options returns an error, and nothing changes.
void be_prompt() noexcept {
  struct {  // the kernel's sched_attr; its header conflicts with the library's
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
  // The new thread blocks all signals: other threads handle them.
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
      } catch (...) {  // an exception of the log function must not end the thread
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
