// Steps that were left out because their gradient was not finite: how many, and how many of them in
// a row. Of each worker group (or worker, where those step by themselves) apart: what one leaves
// out is no matter of the others. Knows what it has been told; a step that is told again, by
// another shard or twice, counts once.
// Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace troupe {

class skipped_steps {
 public:
  using whose = std::pair<bool, std::uint32_t>;  // told by a worker, or by a shard; its number there

  // How many in a row, this one included; nothing: it has been counted.
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
