// Modes in which gradients travel and shards step: bsp, ssp, sandblaster, group_sync, and downpour
// among groups of several workers. Every gradient belongs to a clock (the step it was computed
// for); a shard adds the gradients of one clock in the fixed tree over packets and applies their
// mean once, when the last one is there.
//
// What a mode chooses is in `clock_policy`. Invariants, whatever it chooses:
//   * a gradient is applied exactly once: a push for a clock that is applied, or for a tree node
//     that is there, is ignored;
//   * clocks of one worker group are applied in order;
//   * with staleness 0 the weights of version t depend on the packets' gradients alone: not on who
//     computed them, nor on any order.
#pragma once

#include "runtime/sync/shard_sync.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

struct clock_policy {
  // How many clocks the weights of a step may lack. 0: exactly the weights of the step; forever:
  // whatever is here.
  static constexpr std::uint64_t forever = ~0ull >> 1;
  std::uint64_t staleness = 0;
  // Workers ask for weights (ssp); else the shard sends every version to all workers of the group.
  bool pull = false;
  // Packets of a step are dealt while it runs: a version may arrive before our own gradients are
  // done, and ends the step for us.
  bool work_units = false;
  std::uint32_t work_unit = 1;  // packets of one portion
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
    bool asked = false;  // a fetch is under way
    // Newer ones, by version: which came while a restarted worker makes a step again that this
    // block has already; or, of a layer with a delay, before the layer's other blocks.
    std::map<std::uint64_t, tensor> later;
  };
  // Our own sum of one step's packets that the weights we read may lack: read your own writes.
  struct own_sum {
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };

  std::uint64_t least_version(std::uint64_t step) const { return step > policy_.staleness ? step - policy_.staleness : 0; }
  void keep_own(std::uint32_t layer, own_sum own, effects& out);
  void ask(std::uint32_t layer, std::uint64_t step, effects& out);
  void try_hand(std::uint32_t layer, effects& out);
  // The layer's stage must be handed every version of the weights, one after the other, and not
  // only the newest (a delay, or a restarted stage).
  bool delayed(std::uint32_t layer) const { return policy_.staleness == 0 && out_of_turn(layers_[layer]); }
  bool exact() const { return policy_.staleness == 0 && !policy_.work_units; }  // a step runs at its own version
  void take_later(std::uint32_t layer);
  void hand_next(std::uint32_t layer, effects& out);
  void release(effects& out);
  void assemble(std::uint32_t layer, std::uint64_t step, effects& out);
  void tell_step_over(effects& out);
  void count_work_unit(std::uint64_t step, tree_node node, effects& out);

  clock_policy policy_;
  std::vector<cached> cache_;              // by block
  std::vector<std::vector<own_sum>> own_;  // by layer
  std::vector<std::uint32_t> looking_;     // by layer: sums of our own that are being looked at, before they are laid over anything
  std::vector<bool> assembling_;           // by layer
  // Portions, restarted: what we do again of this step needs its weights in all layers, although
  // some have newer ones already. Until all do, no layer goes on.
  std::optional<std::uint64_t> hold_;
  std::uint64_t over_ = 0;  // portions: the coordinator knows that steps below are over
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> work_unit_left_;  // (step, first packet): layers still to send
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
  std::uint64_t wanted_from(std::uint32_t worker, const shard_block& b) const override;
  // All gradients of a clock are here; by default the rule runs at once. Ends in run_update() of
  // the block.
  virtual void update_block(shard_block& b, additions due, sum_ptr sum, std::uint32_t packets, std::uint64_t step, effects& out) {
    run_update(b, std::move(due), std::move(sum), packets, 1.0, step, out);
  }
  std::uint64_t version_for(std::uint32_t worker, const shard_block& b) const override {
    return clocks_[b.plan->id].groups[config_.plan->group_index(worker)].applied;
  }
  // Whose clock is, or was last, applied to block `b`.
  std::uint32_t applying(const shard_block& b) const { return clocks_[b.plan->id].applying; }
  // Called when nothing changes block `b` at the moment and its value may be replaced (group_sync).
  virtual void on_idle(shard_block& b, effects& out) { (void)b, (void)out; }
  // Applies the next clock of a group, if one is complete.
  bool apply_next(shard_block& b, effects& out);

 private:
  struct group_clock {
    std::uint64_t next = 0;     // clock to be applied; its update may be running
    std::uint64_t applied = 0;  // clocks that are in the value
    std::map<std::uint64_t, packet_tree<sum_ptr>> trees;
  };
  struct block_clock {
    std::vector<group_clock> groups;  // by worker group
    std::vector<header> waiting;      // fetches
    std::uint32_t applying = 0;       // the group whose clock is, or was last, applied
  };

  bool apply(shard_block& b, std::uint32_t g, additions due, effects& out);
  void give_to(role_id r, const shard_block& b, std::uint32_t g, std::uint64_t step, effects& out) const;
  void answer_waiting(shard_block& b, effects& out);
  const worker_group& group_at(std::uint32_t g) const { return config_.plan->groups[g]; }

  clock_policy policy_;
  std::vector<block_clock> clocks_;  // by block id
};

}  // namespace troupe
