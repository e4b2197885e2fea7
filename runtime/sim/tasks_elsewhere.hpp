// Tasks that run outside the world (world_config::elsewhere), each with the function that waits for
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace troupe::sim {

class tasks_elsewhere {
 public:
  // Returns the task's number, counted from 1.
  std::uint64_t add(std::function<void()> wait) {
    waits_.emplace(++begun_, std::move(wait));
    return begun_;
  }
  // Waits until the task is over. Returns at once if there is no such task or it has been waited
  // for.
  void wait_for(std::uint64_t number) {
    const auto at = waits_.find(number);
    if (at == waits_.end()) return;
    const auto wait = std::move(at->second);
    waits_.erase(at);
    wait();
  }
  bool none() const { return waits_.empty(); }
  void wait_for_all() {
    while (!waits_.empty()) wait_for(waits_.begin()->first);
  }

 private:
  std::map<std::uint64_t, std::function<void()>> waits_;
  std::uint64_t begun_ = 0;
};

}  // namespace troupe::sim
