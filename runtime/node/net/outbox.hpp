// Where any thread leaves frames for one connection, and its I/O thread takes them: the bound of
// what may wait, and the count of it. Open between put-up and goodbye; what comes before and after
// is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/node/net/credit.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

class outbox {
 public:
  struct left {
    outgoing_frame f;
    std::uint64_t bytes;  // of its payload
  };
  enum class put_result {
    closed,
    full,   // said once: it is closed from here on
    first,  // accepted; whoever takes must be woken
    more,   // accepted; it has been woken already
  };

  explicit outbox(std::uint64_t most) : max_(most) {}

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  // From the next put() on.
  void limit(std::uint64_t most) {
    const std::lock_guard lock(mutex_);
    max_ = most;
  }
  // What has been left stays for take().
  void shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  // What was left and not taken; it dies with the result, outside the lock: owners may do anything
  // in their destructors.
  std::vector<left> drop() {
    std::vector<left> dropped;
    const std::lock_guard lock(mutex_);
    open_ = false;
    dropped.swap(left_);
    return dropped;
  }

  put_result put(outgoing_frame&& f, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (!open_) return put_result::closed;
    if (bytes_ + bytes + (frames_ + 1) * frame_overhead > max_) {
      open_ = false;
      return put_result::full;
    }
    left_.push_back({std::move(f), bytes});
    bytes_ += bytes;
    ++frames_;
    return std::exchange(woken_, true) ? put_result::more : put_result::first;
  }

  // I/O thread. Swaps what was left with `into`, which is empty and gives its memory for the next
  // ones.
  void take(std::vector<left>& into) {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    into.swap(left_);
  }
  // Of what was taken, so much has left.
  void gone(std::uint64_t bytes, std::uint64_t frames) {
    bytes_ -= bytes;
    frames_ -= frames;
  }
  void forget() { bytes_ = frames_ = 0; }

  std::uint64_t bytes() const { return bytes_; }  // any thread: put and not gone
  std::uint64_t frames() const { return frames_; }

 private:
  std::uint64_t max_;
  std::mutex mutex_;
  std::vector<left> left_;
  bool open_ = false, woken_ = false;
  std::atomic<std::uint64_t> bytes_{0}, frames_{0};
};

}  // namespace troupe::net
