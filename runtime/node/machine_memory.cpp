#include "runtime/node/machine_memory.hpp"

#include <algorithm>

#include "runtime/base/wording.hpp"

namespace troupe {

std::uint64_t reserve_of(const process_memory& m) { return std::min<std::uint64_t>(m.total / 8, std::uint64_t{256} << 20); }

memory_budget job_memory(const process_memory& m, std::uint64_t held, std::uint64_t promised) {
  if (m.total == 0) return {};
  const auto most = std::min(m.total, m.left + held), others = reserve_of(m) + promised;
  // 0 would mean no limit.
  const auto bytes = static_cast<double>(std::max<std::uint64_t>(most - std::min(most, others), 1));
  return {bytes, m.of + " " + bytes_text(static_cast<double>(m.total)) + ", of which a job may have"};
}

}  // namespace troupe
