// Tasks with continuations. A role that starts many tasks keeps the continuation of each with its
// token, instead of a state for every place where it waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/role.hpp"

namespace troupe {

class pending_tasks {
 public:
  using continuation = std::function<void(effects&)>;

  void run(task_work work, task_cost cost, continuation next, effects& out) {
    out.run(std::move(work), cost, expect(std::move(next)));
  }
  // For other effects that are answered by `finished` (shared_effect).
  std::uint64_t expect(continuation next) {
    after_.emplace_back(++tokens_, std::move(next));
    return tokens_;
  }
  // Returns false if the token is unknown or was used before.
  bool finished(std::uint64_t token, effects& out) {
    const auto at = std::find_if(after_.begin(), after_.end(), [token](const auto& x) { return x.first == token; });
    if (at == after_.end()) return false;
    const auto next = std::move(at->second);
    after_.erase(at);
    next(out);
    return true;
  }
  std::size_t size() const { return after_.size(); }

 private:
  std::vector<std::pair<std::uint64_t, continuation>> after_;  // few; nearly always the first one finishes next
  std::uint64_t tokens_ = 0;
};

}  // namespace troupe
