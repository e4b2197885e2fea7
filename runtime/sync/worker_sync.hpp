// The common part of every mode's worker half: the packets' gradients meet in a fixed tree, weights
// are put together layer by layer and handed to the stages, settling, rejoining after a restart,
// and the count of how old the weights were.
//
// Messages in:  gradient (stages), weights, state (shards), settle, observe, set_value
//               (coordinator), start, finished, halt
// Messages out: layer_weights (stages), ready{settled} (shards), observation, ready{joined}
//               (coordinator), fetch, resume_at (after a restart)
//
// Invariants:
//   * a packet's gradient enters its sum once, in the brackets of the fixed tree, whatever the
//     order of arrival;
//   * a layer's stage gets versions in order; version t + 1 means "step t + 1 may begin" (with a
//     delay d: step t + 1 + d);
//   * `ready{flushed}` leaves behind everything the worker had to say about steps below the
//     boundary.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "ops/tree/packet_tree.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/sync/compressing.hpp"
#include "runtime/sync/shard_block.hpp"
#include "runtime/sync/tasks.hpp"

namespace troupe {

class worker_sync : public role {
 public:
  void on(const envelope& e, time_point now, effects& out) final;
  role_status status() const override;

 protected:
  // by_block: sums leave as the maximal aligned blocks of the tree over all packets of the group's
  // step (gradients travel). Nodes count packets from the group's first. whole: one sum over the
  // worker's own packets (the worker steps by itself).
  enum class sums { by_block, whole };
  worker_sync(sync_config c, sums s);

  // What this worker has of a parameter: elements from `begin` on (of a parameter cut along axis 1:
  // the block that begins there), as this shape.
  struct part_of {
    std::uint32_t param = 0;  // in the graph
    std::int64_t begin = 0;
    shape dims;
  };
  struct layer_sync {
    role_id stage = no_role;
    std::vector<std::uint32_t> blocks;      // of all its parameters, or of the part that is here
    std::vector<part_of> params;            // of the layer, or of the part that is here
    std::uint64_t done = 0;                 // gradients of earlier steps have all come and left
    std::uint64_t handed = 0;               // version the stage has
    bool begun = false;                     // it has one
    std::uint32_t delay = 0;                // steps that the stage runs ahead of its updates (plan/warm_up.hpp)
    std::set<std::uint64_t> ahead;          // steps whose gradients have left before those of step `done` (out_of_turn)
    std::map<std::uint64_t, tensors> past;  // sync_config::retains_for_replay: what the stage was handed, for when it is restarted
  };

  // A node of the tree (by_block) or all packets of this worker (whole) are summed, for one layer.
  // The additions have run. No sum: it was not finite, and a worker that steps by itself and may
  // leave steps out (sync_config::max_skipped) goes on without this one.
  virtual void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) = 0;
  // All packets of the layer's step have come and left.
  virtual void on_layer_done(std::uint32_t layer, std::uint64_t step, effects& out) { (void)layer, (void)step, (void)out; }
  virtual void on_weights(const header& h, const weights& w, effects& out) = 0;
  virtual void on_state(const header& h, const state& s, effects& out) {
    (void)h, (void)s, (void)out, drop(drop_reason::unexpected);
  }
  virtual void on_other(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::unexpected); }
  // Restarted: every shard has answered, training goes on at `step`. The answers have been passed
  // to on_weights / on_state.
  virtual void on_joined(std::uint64_t step, effects& out) { (void)step, (void)out; }
  // Settling, in two parts. All layers have been handed version `step`: finish what is under way
  // with others. Then, once quiet(): send what is held back; `ready` follows it.
  virtual void on_settling(std::uint64_t step, effects& out) { (void)step, (void)out; }
  virtual bool quiet() const { return tasks_.size() == 0; }
  virtual void on_flush(std::uint64_t step, effects& out) { (void)step, (void)out; }

  void hand(std::uint32_t layer, std::uint64_t version, tensors values, effects& out);
  // The tree that gathers `layer`'s gradients may be left unfinished (portions that others have
  // computed): forget steps below.
  void forget_sums(std::uint32_t layer, std::uint64_t below);
  void count_read(std::uint32_t layer, std::uint64_t clocks_behind);
  // Sum over [first, first + span) of the packets of one layer, cut into blocks for their shards
  // (or the reducer beside us). What is to be encoded leaves when that has been done, in the order
  // of the calls.
  void push_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const tensors& sum, effects& out);
  // Of the sum of a layer, which parameters of it are not finite.
  void tell_not_finite(std::uint32_t layer, std::uint64_t step, const std::vector<std::uint32_t>& params, effects& out) const;
  header to(role_id r) const { return header_between(config_.job, config_.self, r); }
  role_id shard_of(std::uint32_t block) const;
  const graph_layer& layer_at(std::uint32_t l) const { return config_.graph->layers[l]; }
  const std::vector<std::uint32_t>& blocks_of(std::uint32_t param) const { return blocks_of_[param]; }
  const param_block& block_at(std::uint32_t id) const { return config_.plan->blocks[id]; }
  std::uint32_t packets_here() const { return config_.plan->range_of(config_.worker).count; }
  // Packets whose sum is the gradient of one step of this worker's group.
  std::uint32_t packets_of_group() const { return config_.plan->group_of(config_.worker).range.count; }
  bool has_loader() const { return config_.worker < config_.plan->loaders.size(); }
  role_id loader() const { return config_.plan->loaders[config_.worker]; }
  bool joining() const { return joining_.has_value(); }
  // May a later step of this layer be done before an earlier one? Where its stage runs ahead of its
  // weights, or makes steps again.
  bool out_of_turn(const layer_sync& l) const { return l.delay > 0 || config_.retains_for_replay; }

  sync_config config_;
  std::vector<layer_sync> layers_;
  std::vector<tree_node> cover_;
  pending_tasks tasks_;
  residuals kept_;  // of gradients that travel encoded
  sums sums_;
  std::uint64_t settling_ = 0;  // round, 0: none

 private:
  struct open_step {
    packet_tree<sum_ptr> tree;
    std::size_t left = 0;  // nodes of the cover that have left
  };
  struct rejoin {
    std::map<std::uint32_t, std::uint64_t> wanted;          // by block all of whose answers are here: the step its shard wants next
    std::map<std::uint32_t, std::set<std::uint64_t>> have;  // by block: versions
    std::vector<envelope> answers;
  };

  bool block_fits(role_id src, std::uint32_t block, const tensor& value) const;
  bool gradient_fits(const header& h, const gradient& g) const;
  void take_gradient(const header& h, const gradient& g, effects& out);
  void weigh(const header& h, const gradient& g, effects& out);
  void step_left(std::uint32_t layer, std::uint64_t step, effects& out);
  void pass_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out);
  void node_done(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out);
  void take_start(const header& h, effects& out);
  void begin_join(effects& out);
  void go_on_with_all(std::uint64_t step, std::vector<envelope> answers, effects& out);
  void take_join(const envelope& e, std::uint32_t block, effects& out);
  void check_flushed(effects& out);

  std::vector<std::map<std::uint64_t, open_step>> open_;  // by layer, step
  std::vector<std::vector<std::uint32_t>> blocks_of_;     // by parameter, in order of `begin`: those of parts that are here
  std::size_t own_blocks_ = 0;
  std::optional<rejoin> joining_;
  std::uint64_t flush_at_ = 0;
  bool settling_begun_ = false;
  std::vector<std::vector<std::uint64_t>> reads_;  // by layer: how many were 0, 1, ... clocks behind
};

}  // namespace troupe
