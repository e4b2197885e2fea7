// Threads that read the bodies of requests, in the order of arrival, so that a long body delays
// neither the server's thread nor, unless all threads have one, other bodies.
// Threads: add() may be called by any thread. Errors: none; work must not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

class body_readers {
 public:
  explicit body_readers(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~body_readers() { end(); }
  body_readers(const body_readers&) = delete;
  body_readers& operator=(const body_readers&) = delete;

  void add(std::function<void()> work) {
    {
      const std::lock_guard guard(lock_);
      waiting_.push_back(std::move(work));
    }
    news_.notify_one();
  }
  // Returns when all work that was added is done. No work may be added after it.
  void end() {
    {
      const std::lock_guard guard(lock_);
      over_ = true;
    }
    news_.notify_all();
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock guard(lock_);
        news_.wait(guard, [this] { return over_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        work = std::move(waiting_.front());
        waiting_.pop_front();
      }
      work();
    }
  }

  std::mutex lock_;  // protects the members below
  std::condition_variable news_;
  std::deque<std::function<void()>> waiting_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace troupe
