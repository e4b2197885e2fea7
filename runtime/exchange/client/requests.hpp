// Calls of a session that are started now and waited for later. They run one after the other, in
// the order in which they were started, on one thread that begins with the first request.
//
// Threads: any. stop() ends the requests that have not begun. Closing the session ends the running
// call and all waits. The destructor waits for both.
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
  static constexpr std::size_t most = 4096;  // started, not waited for

  requests() = default;
  ~requests();
  requests(const requests&) = delete;
  requests& operator=(const requests&) = delete;

  // Empty if stopped, or if `most` requests have not been waited for.
  std::optional<std::int64_t> start(work w);
  // The result of a request, once; afterwards the number is forgotten. Empty if `until` has passed.
  std::optional<outcome> wait(std::int64_t number, session::deadline until);
  std::optional<bool> done(std::int64_t number);  // empty: there is no such request
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
