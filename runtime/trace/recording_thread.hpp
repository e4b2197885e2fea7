// The thread of a trace that is being written: calls a function 20 times a second, and once more
// when it is stopped. It has a low priority, so that it mostly runs while the threads of roles
// wait.
// Threads: stop() and the destructor by one at a time. Errors: none; the function must not throw.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe {

class recording_thread {
 public:
  explicit recording_thread(std::function<void()> take) : take_(std::move(take)), thread_([this] { work(); }) {}
  ~recording_thread() { stop(); }
  recording_thread(const recording_thread&) = delete;
  recording_thread& operator=(const recording_thread&) = delete;

  // Returns after the last call. Later calls do nothing.
  void stop() {
    {
      std::lock_guard hold(lock_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  static constexpr std::chrono::milliseconds every{50};

  static constexpr int niceness = 10;

  void work() {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness);  // of this thread only, on Linux
    for (bool last = false; !last;) {
      {
        std::unique_lock hold(lock_);
        last = wake_.wait_for(hold, every, [this] { return stopping_; });
      }
      take_();
    }
  }

  const std::function<void()> take_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe
