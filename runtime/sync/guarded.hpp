// Steps whose gradient is not finite are left out, by all shards of a server group alike, in modes
// where the gradients of a clock meet there (bsp, ssp, sandblaster, group_sync, downpour among
// groups): sync_config::max_skipped > 0.
//
// A shard that has the whole gradient of a clock for one of its blocks looks at it, and waits with
// the update. When it has looked at all of its blocks it tells the other shards what it has found;
// a shard that has heard all of them applies the clock to all of its blocks, or to none: then their
// weights go on as the next version, unchanged, and the states of the rule with them. Running
// statistics are blocks like any other. Messages a step: one `nonfinite_report` to each other shard
// of the server group, none where there is one shard. Updates wait for the last gradient. Where no
// step may be left out (max_skipped = 0) nothing waits: each gradient is looked at in the task that
// applies it (shard_sync::run_update).
// Invariants: what is left out depends on the gradients alone, not on how parameters are cut or in
// which order words arrive; clocks of one worker group are decided in order.
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
  // Gradients that may be applied, in the order of the blocks. Ends in run_update() of the block.
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
    std::vector<held_sum> held;      // of our blocks
    std::vector<std::uint32_t> bad;  // of them
    std::set<role_id> notified;      // shards that have looked at all of theirs
    bool skips = false;
  };
  using clock_of = std::pair<std::uint32_t, std::uint64_t>;  // worker group, step

  void looked(clock_of at, held_sum what, bool bad, effects& out);
  void decide(clock_of at, effects& out);

  std::vector<role_id> others_;       // shards of our server group that have blocks
  std::vector<std::uint64_t> next_;   // by worker group: the step that is not decided yet
  std::map<clock_of, round> rounds_;  // those under way
};

}  // namespace troupe
