// Measurements that take seconds, each on a thread of its own, one at a time. Clients ask again
// until the result is there.
// Threads: any.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"

namespace troupe::control {

class measurements {
 public:
  // The result of `work`, which the first call with this ticket begins; nullopt: not ready. A
  // result is returned once. An error if too many results are awaited, or after close().
  expected<std::optional<std::string>> result(const std::string& ticket, std::function<std::string()> work);
  // Waits for the measurements that have begun.
  void close();

 private:
  struct entry {
    std::future<std::string> result;
    std::chrono::steady_clock::time_point asked{};
  };
  void drop_forgotten();

  std::mutex one_at_a_time_;
  std::mutex lock_;  // of the following
  bool closed_ = false;
  std::map<std::string, entry> awaited_;  // last member: its destructor waits for the threads, which use the others
};

}  // namespace troupe::control
