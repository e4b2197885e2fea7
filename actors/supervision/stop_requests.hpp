// Requests to stop a process: which signals are one request, and which one ends the process at
// once.
//
//   none --signal--> stopping --signal within 2 s--> stopping   (the same request)
//                    stopping --later signal-------> ends at once
//
// One request often arrives as several signals: `timeout` signals its child and then the child's
// group; a terminal that is closed signals the shell, which signals its jobs. A user who presses
// Ctrl-C again after 2 s wants the process to end without the work that is left.
// Threads: any; a signal handler may call all functions. The caller passes the time of a monotonic
// clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace troupe {

class stop_requests {
 public:
  using duration = std::chrono::nanoseconds;
  // Signals within this time of the first one are the same request.
  static constexpr duration window = std::chrono::seconds(2);

  enum class answer { first, repeated, at_once };

  answer request(int signal, duration now) noexcept {
    auto at = none;
    if (first_at_.compare_exchange_strong(at, now.count())) {
      signal_ = signal;
      return answer::first;
    }
    return at != by_command && now.count() - at < window.count() ? answer::repeated : answer::at_once;
  }
  // The process stops for another reason, such as a command: the next signal ends it at once.
  void stopping() noexcept {
    auto at = none;
    first_at_.compare_exchange_strong(at, by_command);
  }
  // The last request was answered without stopping the process.
  void clear() noexcept {
    signal_ = 0;
    first_at_ = none;
  }
  // Copies the request of another object.
  void take_over(const stop_requests& other) noexcept {
    signal_ = other.signal_.load();
    first_at_ = other.first_at_.load();
  }
  // The signal of the first request; 0: there was none.
  int signal() const noexcept { return signal_; }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min(), by_command = none + 1;

  std::atomic<std::int64_t> first_at_{none};  // nanoseconds, or `none` or `by_command`
  std::atomic<int> signal_{0};
  static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
};

}  // namespace troupe
