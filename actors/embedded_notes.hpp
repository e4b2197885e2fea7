// Parts of embedded_run: the queue between its actors and its thread, and the watch for a
// standstill. Private to actors/embedded.cpp.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/shell/node_host.hpp"
#include "runtime/messages/command.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct kill_note {
  std::string why;
};
using note = std::variant<event_effect, store_effect, command, kill_note>;  // command: handled by the thread in run()

// Queue from actor threads to the thread in run(). Bounded: a slow reader (such as a pipe that is
// not read) delays training instead of filling the memory.
class note_queue {
 public:
  static constexpr std::size_t bound = 4096;

  // Adds a note; if `waits`, blocks while the queue is full. A user's command does not wait, since
  // it may come from the thread that takes notes out.
  void put(note n, bool waits = true) {
    std::unique_lock guard(lock_);
    room_.wait(guard, [&] { return notes_.size() < bound || closed_ || !waits; });
    if (closed_) return;
    notes_.push_back(std::move(n));
    if (notes_.size() == 1) filled_.notify_one();
  }
  // Returns all notes, or none after `limit`.
  std::deque<note> take(std::chrono::milliseconds limit) {
    std::unique_lock guard(lock_);
    filled_.wait_for(guard, limit, [this] { return !notes_.empty(); });
    auto taken = std::move(notes_);
    notes_.clear();
    room_.notify_all();
    return taken;
  }
  // The reader has ended: later notes are dropped, so that no actor waits.
  void close() {
    std::lock_guard guard(lock_);
    closed_ = true;
    room_.notify_all();
  }

 private:
  std::mutex lock_;
  std::condition_variable filled_, room_;
  std::deque<note> notes_;
  bool closed_ = false;
};

// Detects that no role has handled a message since the last look. Counts looks and not time, so
// that a process that was stopped for a while (SIGSTOP, a debugger) is not considered hung.
class stall_watch {
 public:
  static constexpr std::chrono::milliseconds every{1000};

  explicit stall_watch(std::chrono::seconds limit) : limit_(limit / every) {}
  bool stalled(const std::vector<role_published>& entries) {
    std::uint64_t now = 0;
    for (const auto& r : entries) now += r.messages;
    quiet_ = now == seen_ ? quiet_ + 1 : 0;
    seen_ = now;
    return quiet_ > limit_;
  }
  void reset() { quiet_ = 0; }

 private:
  std::int64_t limit_;
  std::int64_t quiet_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace troupe
