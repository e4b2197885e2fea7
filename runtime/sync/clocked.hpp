// Modes in which workers push gradients and shards apply the update rule: bsp, ssp, sandblaster,
// group_sync, and downpour with groups of several workers. Every gradient belongs to a clock, the
// step for which it was computed. A shard adds the gradients of one clock in the packet tree and
// applies their mean once, when all of them have arrived.
//
// `clock_policy` holds the choices of a mode. Invariants of every policy:
//   * a gradient is applied exactly once: a push for a clock that has been applied, or for a tree
//     node that is present, is ignored;
//   * the clocks of one worker group are applied in order;
//   * with staleness 0 and one worker group, the weights of version t depend on the packets'
//     gradients alone, not on which worker computed them nor on any order.
#pragma once

#include "runtime/sync/shard_sync.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

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

class clocked_worker : public worker_sync {
 public:
  clocked_worker(sync_config c, clock_policy p);

 protected:
  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override;
  void on_layer_done(std::uint32_t layer, std::uint64_t step, effects& out) override;
  void on_weights(const header& h, const weights& w, effects& out) override;
  void on_joined(std::uint64_t step, effects& out) override;

 private:
  struct cached {
    std::uint64_t version = 0;
    tensor value;
    bool asked = false;  // a fetch is in flight
    // Newer values, by version, which may not be used yet: a restarted worker repeats a step that
    // this block already contains, or the layer has a delay and its other blocks do not have that
    // version.
    std::map<std::uint64_t, tensor> later;
  };
  // This worker's sum of one step's packets, which the weights that it reads may lack (read your
  // own writes).
  struct own_sum {
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };

  std::uint64_t least_version(std::uint64_t step) const { return step > policy_.staleness ? step - policy_.staleness : 0; }
  void keep_own(std::uint32_t layer, own_sum own, effects& out);
  void ask(std::uint32_t layer, std::uint64_t step, effects& out);
  void try_hand(std::uint32_t layer, effects& out);
  // Returns true if the layer's stage must be handed every version of the weights in turn, not only
  // the newest, because it has a delay or may be restarted.
  bool delayed(std::uint32_t layer) const { return policy_.staleness == 0 && out_of_turn(layers_[layer]); }
  bool exact() const { return policy_.staleness == 0 && !policy_.work_units; }  // a step runs with weights of its own version
  void take_later(std::uint32_t layer);
  void hand_next(std::uint32_t layer, effects& out);
  void release(effects& out);
  void assemble(std::uint32_t layer, std::uint64_t step, effects& out);
  void tell_step_over(effects& out);
  void count_work_unit(std::uint64_t step, tree_node node, effects& out);

  clock_policy policy_;
  std::vector<cached> cache_;              // by block
  std::vector<std::vector<own_sum>> own_;  // by layer
  std::vector<std::uint32_t> looking_;     // by layer: own sums being checked for non-finite values; the layer waits for them
  std::vector<bool> assembling_;           // by layer
  // Set when a worker that is dealt work units has been restarted: the step that it may have to
  // repeat, with that step's weights in all layers, although some blocks may be newer. No layer
  // continues until all blocks have a later version.
  std::optional<std::uint64_t> hold_;
  std::uint64_t over_ = 0;  // work units: steps below it have been reported as over
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> work_unit_left_;  // (step, first packet): layers not pushed yet
};

class clocked_shard : public shard_sync {
 public:
  clocked_shard(sync_config c, clock_policy p);
  role_status status() const override;

 protected:
  void on_push(const header& h, const push& p, shard_block& b, effects& out) override;
  void on_fetch(const header& h, const fetch& f, shard_block& b, effects& out) override;
  void on_updated(shard_block& b, effects& out) override;
  bool quiet(std::uint64_t step) override;
  bool updates_by_gradients() const override { return true; }
  std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const override;
  // Called when all gradients of a clock have arrived; must end in run_update() of the block. By
  // default the rule is applied at once.
  virtual void update_block(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step, effects& out) {
    run_update(b, std::move(due), std::move(sum), packets, 1.0, step, out);
  }
  std::uint64_t version_for(std::uint32_t worker, const shard_block& b) const override {
    return clocks_[b.plan->id].groups[config_.plan->group_index(worker)].applied;
  }
  // The worker group whose clock is being applied to block `b`, or was applied last.
  std::uint32_t applying(const shard_block& b) const { return clocks_[b.plan->id].applying; }
  // Called when no update of block `b` runs and its value may be replaced (group_sync).
  virtual void on_idle(shard_block& b, effects& out) { (void)b, (void)out; }
  // Applies the next clock of a worker group. Returns false if none is complete.
  bool apply_next(shard_block& b, effects& out);

 private:
  struct group_clock {
    std::uint64_t next = 0;     // first clock whose update has not started
    std::uint64_t applied = 0;  // clocks below it are contained in the value
    std::map<std::uint64_t, packet_tree<sum_ptr>> trees;
  };
  struct block_clock {
    std::vector<group_clock> groups;  // by worker group
    std::vector<header> waiting;      // fetches of versions that the block does not have yet
    std::uint32_t applying = 0;       // the worker group whose clock is being applied, or was applied last
  };

  bool apply(shard_block& b, std::uint32_t g, additions due, effects& out);
  void give_to(role_id r, const shard_block& b, std::uint32_t g, std::uint64_t step, effects& out) const;
  void answer_waiting(shard_block& b, effects& out);
  std::string missing_workers() const;
  const worker_group& group_at(std::uint32_t g) const { return config_.plan->groups[g]; }

  clock_policy policy_;
  std::vector<block_clock> clocks_;  // by block id
};

}  // namespace troupe
