// Modes in which workers push gradients and shards apply the update rule: bsp, ssp, sandblaster,
// group_sync, and downpour with groups of several workers. Every gradient belongs to a clock, the
// step for which it was computed. A shard adds the gradients of one clock in the packet tree and
// applies their mean once, when all of them have arrived.
//
// The way of a gradient, from a stage to the next version of the weights:
//
//   worker sync
//    1. worker_sync::take_gradient      drops what does not fit; a task weighs running statistics
//    2. worker_sync::add_packet         adds it in the packet tree (a task)
//    3. worker_sync::check_sum          a sum of the worker's packets is complete; nothing to check
//                                       in these modes
//    4. clocked_worker::on_sum          pushes the sum, block by block (push_sum: with a codec, a
//                                       task encodes)
//   shard sync
//    5. shard_sync::take_push           with a codec, a task decodes
//    6. gradient_clocks::take_push      adds it in the packet tree (a task, or that of step 7)
//    7. update_steps                    the gradient of the clock is complete: finite_check,
//                                       norm_clip, apply_rule, replicate (those of the mode's list
//                                       that the job needs)
//    8. gradient_clocks::updated        sends the new version
//   worker sync
//    9. clocked_worker::on_weights      keeps the block
//   10. clocked_worker::try_hand        when all blocks of the layer are new enough: assemble (a
//       task,
//                                       unless each parameter is one block), then hand to the stage
//
// In modes whose workers apply the rule themselves (local.hpp) step 3 looks for non-finite values
// if steps may be skipped, and step 4 is local_worker::on_sum, which applies the rule (a task).
//
// `clock_policy` holds the choices of a mode. Invariants of every policy:
//   * a gradient is applied exactly once: a push for a clock that has been applied, or for a tree
//     node that is present, is ignored;
//   * the clocks of one worker group are applied in order;
//   * with staleness 0 and one worker group, the weights of version t depend on the packets'
//     gradients alone, not on which worker computed them nor on any order.
#pragma once

#include "runtime/sync/gradient_clocks.hpp"
#include "runtime/sync/shard_sync.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

class clocked_worker : public worker_sync {
 public:
  clocked_worker(sync_config c, clock_policy p);

 protected:
  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override;
  void on_layer_done(std::uint32_t layer, std::uint64_t step, effects& out) override;
  void on_weights(const header& h, const weights& w, effects& out) override;

 private:
  struct cached {
    std::uint64_t version = 0;
    tensor value;
    bool asked = false;  // a fetch is in flight
    // Newer values, by version, which may not be used yet: the layer's step is not done, or the
    // layer has a delay and its other blocks do not have that version.
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
  // the newest, because it has a delay.
  bool delayed(std::uint32_t layer) const { return policy_.staleness == 0 && out_of_turn(layers_[layer]); }
  bool exact() const { return policy_.staleness == 0 && !policy_.work_units; }  // a step runs with weights of its own version
  void take_later(std::uint32_t layer);
  void hand_next(std::uint32_t layer, effects& out);
  void assemble(std::uint32_t layer, std::uint64_t step, effects& out);
  void tell_step_over(effects& out);
  void count_work_unit(std::uint64_t step, tree_node node, effects& out);

  clock_policy policy_;
  std::vector<cached> cache_;              // by block
  std::vector<std::vector<own_sum>> own_;  // by layer
  std::vector<std::uint32_t> looking_;     // by layer: own sums being checked for non-finite values; the layer waits for them
  std::vector<bool> assembling_;           // by layer
  std::uint64_t over_ = 0;                 // work units: steps below it have been reported as over
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> work_unit_left_;  // (step, first packet): layers not pushed yet
};

// Applies each clock with the given steps (update_steps.hpp), which end with the new version.
class clocked_shard final : public shard_sync {
 public:
  clocked_shard(sync_config c, const clock_policy& p, const update_list& steps);
  role_status status() const override;

 private:
  void on_push(const header& h, const push& p, shard_block& b, effects& out) override { note(clocks_.take_push(h, p, b, out)); }
  void on_fetch(const header& h, const fetch&, shard_block& b, effects& out) override { note(clocks_.take_fetch(h, b, out)); }
  void on_updated(shard_block& b, effects& out) override;
  bool quiet(std::uint64_t step) override { return tasks_.size() == 0 && clocks_.all_applied(step); }

  gradient_clocks clocks_;
};

}  // namespace troupe
