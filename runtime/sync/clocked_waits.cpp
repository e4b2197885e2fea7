// What a shard of the clocked modes waits for.
#include "runtime/sync/clocked.hpp"

namespace troupe {

role_status clocked_shard::status() const {
  auto s = shard_sync::status();
  for (const auto& c : clocks_)
    for (const auto& g : c.groups)
      for (const auto& [step, tree] : g.trees) s.queued += static_cast<std::uint32_t>(tree.size());
  if (s.waits_for.empty()) s.wait(wait_kind::gradients, "gradients of step " + std::to_string(s.step) + missing_workers());
  return s;
}

// The workers whose gradients block 0 of this shard lacks, if others have sent theirs: " from
// worker2".
std::string clocked_shard::missing_workers() const {
  constexpr std::size_t named = 4;
  if (policy_.work_units || blocks_.list().empty()) return {};
  const auto& b = blocks_.list().front();
  std::string text;
  std::size_t workers = 0, missing = 0;
  for (std::uint32_t w = 0; w < config_.plan->ranges.size(); ++w) {
    const auto& g = group_at(config_.plan->group_index(w));
    if (g.server_group != group()) continue;
    ++workers;
    if (wanted_from(w, b) > clocks_[b.plan->id].groups[config_.plan->group_index(w)].next) continue;
    if (++missing <= named) text += (missing == 1 ? " from worker" : ", worker") + std::to_string(w);
  }
  if (missing == 0 || missing == workers) return {};
  return missing > named ? text + " and " + std::to_string(missing - named) + " more" : text;
}

}  // namespace troupe
