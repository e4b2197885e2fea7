// Skips steps whose gradient is not finite (sync_config::max_skipped > 0), in modes in which the
// gradients of a clock are added at the shards (bsp, ssp, sandblaster, group_sync, downpour with
// groups of several workers). All shards of a server group skip the same steps.
//
// A shard that has the complete gradient of a clock for one of its blocks checks it and holds the
// update back. When it has checked all its blocks, it sends a nonfinite report to the other shards.
// A shard that has the reports of all of them applies the clock to all its blocks, or to none of
// them: then the version grows, and weights and rule states stay unchanged. Running statistics are
// treated like any other block.
//
// Messages per step: one `nonfinite_report` to each other shard of the server group, none if there
// is only one shard. Updates wait for the last gradient. With max_skipped = 0 nothing waits: each
// gradient is checked in the task that applies it (shard_sync::run_update).
//
// Invariants:
//   * which steps are skipped depends on the gradients alone, not on how parameters are cut nor on
//     the order of arrival;
//   * the clocks of one worker group are decided in order.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/sync/clocked.hpp"

namespace troupe {

class guarded_shard : public clocked_shard {
 public:
  guarded_shard(sync_config c, clock_policy p);
  role_status status() const override;

 protected:
  void update_block(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step, effects& out) final;
  void on_other(const envelope& e, effects& out) override;
  bool looked_at() const override { return config_.max_skipped > 0; }
  // Called for the finite gradients of a clock, in the order of the blocks; must end in
  // run_update() of the block.
  virtual void take_sound(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step, effects& out) {
    run_update(b, std::move(due), std::move(sum), packets, 1.0, step, out);
  }

 private:
  struct held_sum {
    shard_block* block = nullptr;
    sum_ptr sum;
    std::uint32_t packets = 0;
  };
  struct round {
    std::vector<held_sum> held;      // complete sums of this shard's blocks
    std::vector<std::uint32_t> bad;  // ids of those that are not finite
    std::set<role_id> notified;      // shards that have reported, this one included
    bool skips = false;              // a reported gradient is not finite
  };
  using clock_of = std::pair<std::uint32_t, std::uint64_t>;  // (worker group, step)

  void looked(clock_of at, held_sum what, bool bad, effects& out);
  void decide(clock_of at, effects& out);

  std::vector<role_id> others_;       // the other shards of the server group that own blocks
  std::vector<std::uint64_t> next_;   // by worker group: first step that is not decided
  std::map<clock_of, round> rounds_;  // undecided clocks
};

}  // namespace troupe
