// The last published status of each role, readable at any time. Every entry has its own lock,
// because a reader (the REPL) must never wait for a scheduler thread that computes. A role
// publishes at most every `publish_every`. The monitor's thread wakes roles whose entry is out of
// date and that receive no more messages. Entries also contain the running tasks, which the threads
// that run them record, because a role publishes nothing while its own actor computes.
// Threads: an entry is written by its role and its sub-solvers and read by any thread; each holds
// the lock for one copy of a role_status.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "actors/shell/node_host.hpp"

namespace troupe {

constexpr std::chrono::milliseconds publish_every{50};

class monitor_entry {
 public:
  using clock = std::chrono::steady_clock;

  void name(std::uint32_t job_id, role_id id, std::string text, std::string_view kind = {}) {
    last_.job = job_id;
    last_.id = id;
    last_.name = std::move(text);
    last_.kind = kind;
  }
  void put(role_status s, std::uint64_t messages, duration busy, clock::time_point now);
  role_published get(clock::time_point now) const;

  // Called by the thread that runs a task of the role, in one of its slots; tasks of one slot never
  // overlap. `kind` is a string literal.
  void task_begun(std::uint32_t slot, const char* kind, const std::optional<header>& packet, clock::time_point now);
  void task_over(std::uint32_t slot, clock::time_point now = clock::now());

  // touched(): the role reports a change since put(). wants_waking(): returns true if the monitor
  // must wake the role; at most once until the next answered().
  void touched() { dirty_.store(true, std::memory_order_relaxed); }
  bool wants_waking();
  void answered() { woken_.store(false, std::memory_order_relaxed); }

 private:
  mutable std::mutex lock_;
  role_published last_;
  clock::time_point at_ = clock::now();
  struct task {
    const char* kind = nullptr;  // null: none runs
    std::uint64_t serial = 0;
    std::optional<header> packet;
    clock::time_point since{};
  };
  // The times of the last tasks of one kind.
  struct times_of_kind {
    const char* kind = nullptr;
    std::array<duration, 15> last{};
    std::uint64_t count = 0;
    double median() const;  // seconds; 0: fewer than 5
  };
  std::vector<task> tasks_;  // by slot
  std::vector<times_of_kind> times_;
  std::uint64_t tasks_begun_ = 0;
  std::atomic<bool> dirty_{false};
  std::atomic<bool> woken_{false};
};

// Calls `sweep` every publish_every from its own thread.
class monitor_thread {
 public:
  explicit monitor_thread(std::function<void()> sweep);
  ~monitor_thread();
  monitor_thread(const monitor_thread&) = delete;
  monitor_thread& operator=(const monitor_thread&) = delete;

 private:
  std::function<void()> sweep_;
  std::mutex lock_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troupe
