// Frames that any thread leaves for one connection until its I/O thread takes them. Bounds and
// counts the queued bytes and frames. Open between go_up and goodbye; frames put before or after
// are refused.
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
    full,   // returned once; the outbox is closed from then on
    first,  // accepted; the I/O thread must be woken
    more,   // accepted; the I/O thread has been woken already
  };

  explicit outbox(std::uint64_t most) : max_(most) {}

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }
  // In bytes; applies from the next put() on.
  void limit(std::uint64_t most) {
    const std::lock_guard lock(mutex_);
    max_ = most;
  }
  // Closes the outbox. Frames in it stay for take().
  void shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  // Closes the outbox and returns the frames that were not taken. They are destroyed with the
  // result, outside the lock, because destructors of owners may run any code.
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

  // I/O thread. Swaps the frames with `into`, which must be empty; its memory is reused.
  void take(std::vector<left>& into) {
    const std::lock_guard lock(mutex_);
    woken_ = false;
    into.swap(left_);
  }
  // Subtracts taken frames that have been written.
  void gone(std::uint64_t bytes, std::uint64_t frames) {
    bytes_ -= bytes;
    frames_ -= frames;
  }
  void forget() { bytes_ = frames_ = 0; }

  std::uint64_t bytes() const { return bytes_; }  // any thread; put and not yet written
  std::uint64_t frames() const { return frames_; }

 private:
  std::uint64_t max_;
  std::mutex mutex_;
  std::vector<left> left_;
  bool open_ = false, woken_ = false;
  std::atomic<std::uint64_t> bytes_{0}, frames_{0};
};

}  // namespace troupe::net
