// The gradients of a shard's blocks, by clock: adds the pushes of a clock in the packet tree,
// starts the update of a block when all gradients of its next clock have arrived, and sends the new
// version to the workers. A part of the shard syncs of the clocked modes (clocked.hpp,
// group_sync.cpp).
//
// Messages in:  push, fetch (workers). Messages out: weights (workers).
//
// Invariants:
//   * a gradient is applied exactly once: a push for a clock that has been applied, or for a tree
//     node that is present, is ignored;
//   * the clocks of one worker group are applied in order; worker groups take turns;
//   * a block has at most one update in progress (shard_block::updating).
// Errors: none; messages that do not fit are ignored with the reason that is returned. Threads:
// those of the role.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/tree/packet_tree.hpp"
#include "runtime/sync/update_steps.hpp"

namespace troupe {

// The choices of a mode whose workers push gradients and whose shards apply the update rule clock
// by clock (clocked.hpp).
struct clock_policy {
  // Maximum number of clocks that the weights of a step may lack. 0: a step runs with weights of
  // exactly its version; forever: no limit.
  static constexpr std::uint64_t forever = ~0ull >> 1;
  std::uint64_t staleness = 0;
  // true: workers fetch weights (ssp). false: the shard sends every version to all workers of the
  // group.
  bool pull = false;
  // The coordinator deals the packets of a step while it runs. Weights of the next version may then
  // arrive before this worker's own gradients are complete, and end the step for it.
  bool work_units = false;
  std::uint32_t work_unit = 1;  // packets per work unit
};

class gradient_clocks {
 public:
  // Complete gradients go to `update`. Both must outlive this object.
  gradient_clocks(const shard_parts& p, const clock_policy& policy, update_steps& update);

  std::optional<drop_reason> take_push(const header& h, const push& p, shard_block& b, effects& out);
  // Answered once the slowest worker's clock has reached the requested version, header.version.
  std::optional<drop_reason> take_fetch(const header& h, shard_block& b, effects& out);
  // Call when the update of the block is complete (shard_sync::on_updated): sends the new version.
  void updated(shard_block& b, effects& out);
  // Starts the update with the next clock of a worker group. Returns false if none is complete.
  bool start_next(shard_block& b, effects& out);

  bool all_applied(std::uint64_t step) const;  // every block contains exactly the clocks below `step`
  void describe(role_status& s) const;

 private:
  // The first clock of which the block lacks a gradient of the worker.
  std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const;
  struct group_clock {
    std::uint64_t next = 0;     // first clock whose update has not started
    std::uint64_t applied = 0;  // clocks below it are contained in the value
    std::map<std::uint64_t, packet_tree<sum_ptr>> trees;
    std::vector<header> waiting;  // fetches of versions that the block does not have yet
  };
  // A message costs the same whatever the number of workers and groups.
  struct block_clock {
    std::vector<group_clock> groups;                    // of the groups that this shard serves
    std::set<std::uint32_t> ready;                      // groups that have all gradients of their next clock
    std::set<std::pair<role_id, std::uint64_t>> asked;  // by worker sync and step: the fetches that wait
    std::uint32_t applying = 0;                         // the worker group whose clock is being applied, or was applied last
  };

  bool start(shard_block& b, std::uint32_t g, additions due, effects& out);
  void give(role_id r, const shard_block& b, std::uint32_t g, std::uint64_t step, effects& out) const;
  void answer_waiting(shard_block& b, std::uint32_t g, effects& out);
  bool serves(std::uint32_t g) const { return group_at(g).server_group == parts_.group(); }
  group_clock& clock_of(const shard_block& b, std::uint32_t g) { return clocks_[b.plan->id].groups[g - first_group_]; }
  const group_clock& clock_of(const shard_block& b, std::uint32_t g) const { return clocks_[b.plan->id].groups[g - first_group_]; }
  void note_ready(const shard_block& b, std::uint32_t g);
  std::string missing_workers() const;
  const worker_group& group_at(std::uint32_t g) const { return parts_.plan().groups[g]; }

  const shard_parts parts_;
  clock_policy policy_;
  update_steps& update_;
  std::uint32_t first_group_ = 0;    // that this shard serves
  std::vector<block_clock> clocks_;  // by block id
};

}  // namespace troupe
