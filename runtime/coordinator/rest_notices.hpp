// Notices to workers that rest at a boundary (modes with mode_facts::rests): the step at which the
// granted steps end for now. Each worker is notified of each change once.
// Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace troupe {

class rest_notices {
 public:
  struct notice {
    std::uint64_t number;  // of the notice, counted from 1 over all workers
    std::uint64_t until;   // the step; 0: more steps will be granted
  };
  explicit rest_notices(std::uint32_t workers) : notified_(workers, 0) {}

  std::optional<notice> due(std::uint32_t worker, std::uint64_t granted, std::uint64_t boundary) {
    const auto until = granted >= boundary ? boundary : 0;
    if (notified_[worker] == until) return std::nullopt;
    notified_[worker] = until;
    return notice{++notices_, until};
  }
  // A new mode begins, in which no worker has been notified.
  void forget_all() {
    notified_.assign(notified_.size(), 0);
    forgot_ = true;
  }
  // Returns true if a notice was forgotten since the last call: then due() may differ for workers
  // whose grants have not changed.
  bool take_forgot() { return std::exchange(forgot_, false); }

 private:
  std::vector<std::uint64_t> notified_;  // by worker: the announced boundary; 0: none
  std::uint64_t notices_ = 0;
  bool forgot_ = true;
};

}  // namespace troupe
