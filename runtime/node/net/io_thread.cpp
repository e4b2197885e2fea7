#include "runtime/node/net/io_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <exception>

namespace troupe::net {

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
