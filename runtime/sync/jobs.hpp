// Jobs with what comes after them. A role that starts many jobs and goes on differently after each keeps the rest of the thought
// beside the token, instead of a state for every place where it waits.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "runtime/role.hpp"

namespace troupe {

class pending_jobs {
 public:
  using continuation = std::function<void(effects&)>;

  void run(job_work work, job_cost cost, continuation next, effects& out) {
    out.run(std::move(work), cost, expect(std::move(next)));
  }
  // For effects that answer by `finished` in other ways.
  std::uint64_t expect(continuation next) {
    after_.emplace(++tokens_, std::move(next));
    return tokens_;
  }
  // False: not one of ours, or it came twice.
  bool finished(std::uint64_t token, effects& out) {
    auto next = after_.extract(token);
    if (next.empty()) return false;
    next.mapped()(out);
    return true;
  }
  std::size_t size() const { return after_.size(); }

 private:
  std::unordered_map<std::uint64_t, continuation> after_;
  std::uint64_t tokens_ = 0;
};

}  // namespace troupe
