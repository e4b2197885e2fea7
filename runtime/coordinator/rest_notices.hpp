// What workers that rest (modes with mode_facts::rests) are told of the boundary: which of the
// steps they were granted are the last for now. Knows who has been told what; never why there is a
// boundary. A worker is told what is new to it, and once.
// Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

class rest_notices {
 public:
  struct notice {
    std::uint64_t word;   // they count from 1, over all workers
    std::uint64_t until;  // 0: more will be granted
  };
  explicit rest_notices(std::uint32_t workers) : notified_(workers, 0) {}

  std::optional<notice> due(std::uint32_t worker, std::uint64_t granted, std::uint64_t boundary) {
    const auto until = granted >= boundary ? boundary : 0;
    if (notified_[worker] == until) return std::nullopt;
    notified_[worker] = until;
    return notice{++words_, until};
  }
  // It was restarted.
  void forget(std::uint32_t worker) { notified_[worker] = 0; }
  // Who rests in the mode that begins has been told nothing.
  void forget_all() { notified_.assign(notified_.size(), 0); }

 private:
  std::vector<std::uint64_t> notified_;  // by worker: the boundary; 0: none
  std::uint64_t words_ = 0;
};

}  // namespace troupe
