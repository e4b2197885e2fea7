// Counts steps that were skipped because their gradient was not finite: in total, and in a row for
// each worker group (or each worker, if workers step independently). A step that is reported again,
// by another shard or twice, counts once.
// Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace troupe {

class skipped_steps {
 public:
  using whose = std::pair<bool, std::uint32_t>;  // (reported by a worker, not a shard; index of the worker or group)

  // Returns the number of skipped steps in a row, including this one. Nullopt if it was counted
  // before.
  std::optional<std::uint64_t> note(whose of, std::uint64_t step) {
    auto [at, first] = entries_.try_emplace(of, entry{step, 1});
    if (!first) {
      auto& r = at->second;
      if (step <= r.last) return std::nullopt;
      r.length = step == r.last + 1 ? r.length + 1 : 1;
      r.last = step;
    }
    ++total_;
    return at->second.length;
  }
  std::uint64_t total() const { return total_; }

 private:
  struct entry {
    std::uint64_t last = 0, length = 0;
  };
  std::map<whose, entry> entries_;
  std::uint64_t total_ = 0;
};

}  // namespace troupe
