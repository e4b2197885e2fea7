// The update step that skips clocks whose gradient is not finite (sync_config::max_skipped > 0), in
// modes in which the gradients of a clock are added at the shards (bsp, ssp, sandblaster,
// group_sync, downpour with groups of several workers). All shards of a server group skip the same
// clocks.
//
// The step checks the complete gradient of a clock for each block and holds it. When it has checked
// all blocks of the shard, it sends a nonfinite report to the other shards. When it has the reports
// of all of them, it passes on the clock for all blocks, in the order of the blocks: with its
// gradients, or, if one of them is not finite, without (complete_gradient::sum). Running statistics
// are treated like any other block.
//
// Messages per clock: one `nonfinite_report` to each other shard of the server group, none if there
// is only one shard; if this shard's gradients are not finite, one to the coordinator. Updates wait
// for the last gradient. With max_skipped = 0 the list has no such step, and nothing waits:
// apply_rule checks each gradient in the task that applies it.
//
// Invariants:
//   * which clocks are skipped depends on the gradients alone, not on how parameters are cut nor on
//     the order of arrival;
//   * the clocks of one worker group are decided in order.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/sync/update_steps.hpp"

namespace troupe {

class finite_check final : public update_step {
 public:
  explicit finite_check(const shard_parts& p);
  static std::unique_ptr<update_step> make(const shard_parts& p) {
    return p.config.max_skipped > 0 ? std::make_unique<finite_check>(p) : nullptr;
  }

  void take(complete_gradient g, effects& out) override;
  std::optional<drop_reason> take_message(const envelope& e, effects& out) override;
  void describe(role_status& s) const override;

 private:
  struct round {
    std::vector<complete_gradient> held;  // checked gradients of this shard's blocks
    std::vector<std::uint32_t> bad;       // ids of the blocks whose gradient is not finite
    std::set<role_id> notified;           // shards that have reported, this one included
    bool skips = false;                   // a reported gradient is not finite
  };
  using clock_of = std::pair<std::uint32_t, std::uint64_t>;  // (worker group, step)

  void looked(complete_gradient g, bool bad, effects& out);
  void decide(clock_of at, effects& out);

  std::uint64_t next_of(std::uint32_t group) const {
    const auto at = next_.find(group);
    return at == next_.end() ? parts_.config.first_step : at->second;
  }

  std::vector<role_id> others_;                  // the other shards of the server group that own blocks
  std::map<std::uint32_t, std::uint64_t> next_;  // by worker group, once decided: first step that is not decided
  std::map<clock_of, round> rounds_;             // undecided clocks
};

}  // namespace troupe
