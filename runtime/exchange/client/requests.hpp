// Calls of a session that somebody has started and will wait for: they are made one after the
// other, in the order in which they were started, on a thread of their own, which begins with the
// first of them.
//
// Threads: any. stop() ends what has not begun; whoever closes the session ends the call that is
// being made, and with it everybody who waits. The destructor waits for both.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/exchange/client/session.hpp"

namespace troupe::exchange {

class requests {
 public:
  using work = std::function<outcome()>;
  static constexpr std::size_t most = 4096;  // that nobody has waited for

  requests() = default;
  ~requests();
  requests(const requests&) = delete;
  requests& operator=(const requests&) = delete;

  // Nothing: stopped, or too many.
  std::optional<std::int64_t> start(work w);
  // How it ended, once: then the number is forgotten. Nothing: `until` has passed.
  std::optional<outcome> wait(std::int64_t number, session::deadline until);
  std::optional<bool> done(std::int64_t number);  // nothing: there is no such request
  void stop();

 private:
  struct one {
    work what;
    std::optional<outcome> how;
  };
  void run();

  std::mutex lock_;
  std::condition_variable changed_;
  std::map<std::int64_t, one> all_;
  std::deque<std::int64_t> waiting_;
  std::int64_t numbers_ = 0;
  unsigned inside_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace troupe::exchange
