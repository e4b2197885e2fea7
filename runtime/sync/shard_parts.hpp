// The state of a shard sync that its parts share: update steps, clocks, histograms and means of
// copies. References: the shard sync outlives its parts.
#pragma once

#include <cstdint>

#include "runtime/sync/shard_block.hpp"
#include "runtime/sync/tasks.hpp"

namespace troupe {

// Returns the worker to which the worker sync or reducer `r` belongs; for other roles the number of
// workers.
inline std::uint32_t worker_of(const job_plan& plan, role_id r) {
  const auto none = static_cast<std::uint32_t>(plan.workers.size());
  if (index_of(r) >= plan.roles.size()) return none;
  const auto& p = plan[r];
  return p.does().adds != role_sums::none ? p.worker : none;
}

struct shard_parts {
  const sync_config& config;
  shard_blocks& blocks;
  pending_tasks& tasks;

  const job_plan& plan() const { return *config.plan; }
  std::uint32_t group() const { return plan()[config.self].group; }  // the shard's server group
  header to(role_id r) const { return header_between(config.job, config.self, r); }
};

}  // namespace troupe
