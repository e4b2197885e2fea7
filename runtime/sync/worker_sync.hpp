// The common part of every mode's worker sync: adds the packets' gradients in the packet tree,
// assembles weights layer by layer and hands them to the stages, flushes, and counts how old the
// weights were.
//
// Messages in:  gradient (stages), weights, state (shards), flush, observe, set_value
//               (coordinator), finished, halt
// Messages out: layer_weights (stages), push, ready{flushed} (shards), observation, step_time,
//               nonfinite_report (coordinator)
//
// Invariants:
//   * a packet's gradient enters its sum once, in the brackets of the packet tree, whatever the
//     order of arrival;
//   * a layer's stage gets versions in order; version t + 1 means "step t + 1 may begin" (with a
//     delay d: step t + 1 + d);
//   * ready{flushed} is sent after all messages that concern steps below the boundary.
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
  // by_block: one sum for each maximal aligned run of the worker's packets, a node of the tree over
  // all packets of the group's step (workers push gradients). Nodes count packets from the group's
  // first. whole: one sum over the worker's own packets (the worker applies the rule itself).
  enum class sums { by_block, whole };
  worker_sync(sync_config c, sums s);

  // This worker's part of a parameter: the elements from `begin` on, with the shape `dims`. If the
  // parameter is cut along axis 1, `begin` is that of the block.
  struct part_of {
    std::uint32_t param = 0;  // in the graph
    std::int64_t begin = 0;
    shape dims;
  };
  struct layer_sync {
    role_id stage = no_role;
    std::vector<std::uint32_t> blocks;  // of all its parameters, or of this worker's part
    std::vector<part_of> params;        // of the layer, or of this worker's part
    std::uint64_t done = 0;             // gradients of all steps below it have arrived and been sent
    std::uint64_t handed = 0;           // version that the stage has
    bool begun = false;                 // the stage has a version
    std::uint32_t delay = 0;            // number of steps that the stage runs ahead of its updates (plan/warm_up.hpp)
    std::set<std::uint64_t> ahead;      // steps whose gradients were sent before those of step `done` (out_of_turn)
  };

  // Called when a node of the tree (by_block), or all packets of this worker (whole), are summed
  // for one layer; the additions have run. `sum` is null if it was not finite and a worker that
  // applies the rule itself skips the step (sync_config::max_skipped).
  virtual void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) = 0;
  // All gradients of the layer's step have arrived and been sent.
  virtual void on_layer_done(std::uint32_t layer, std::uint64_t step, effects& out) { (void)layer, (void)step, (void)out; }
  virtual void on_weights(const header& h, const weights& w, effects& out) = 0;
  virtual void on_state(const header& h, const state& s, effects& out) {
    (void)h, (void)s, (void)out, drop(drop_reason::unexpected);
  }
  virtual void on_other(const envelope& e, effects& out) { (void)e, (void)out, drop(drop_reason::unexpected); }
  // The two parts of a flush. on_settling: all layers have been handed version `step`; complete the
  // exchanges in progress. on_flush, once quiet(): send everything that is held back;
  // ready{flushed} follows it.
  virtual void on_settling(std::uint64_t step, effects& out) { (void)step, (void)out; }
  virtual bool quiet() const { return tasks_.size() == 0; }
  virtual void on_flush(std::uint64_t step, effects& out) { (void)step, (void)out; }

  void hand(std::uint32_t layer, std::uint64_t version, tensors values, effects& out);
  // Discards unfinished sums of the layer for steps below `below` (work units that other workers
  // have computed).
  void forget_sums(std::uint32_t layer, std::uint64_t below);
  void count_read(std::uint32_t layer, std::uint64_t clocks_behind);
  // Pushes the sum over packets [first, first + span) of one layer, cut into blocks, to their
  // shards (or to the colocated reducer). Sums that are encoded are sent when the encoding task has
  // finished, in the order of the calls.
  void push_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const tensors& sum, effects& out);
  void count_pushed(codec_kind codec, std::uint64_t before, std::uint64_t sent);
  // Reports to the coordinator which parameters of a layer's sum are not finite.
  void tell_not_finite(std::uint32_t layer, std::uint64_t step, const std::vector<std::uint32_t>& params, effects& out) const;
  header to(role_id r) const { return header_between(config_.job, config_.self, r); }
  role_id shard_of(std::uint32_t block) const;
  const graph_layer& layer_at(std::uint32_t l) const { return config_.graph->layers[l]; }
  const std::vector<std::uint32_t>& blocks_of(std::uint32_t param) const { return blocks_of_[param]; }
  const param_block& block_at(std::uint32_t id) const { return config_.plan->blocks[id]; }
  std::uint32_t packets_here() const { return config_.plan->range_of(config_.worker).count; }
  // Number of packets whose sum is the gradient of one step of this worker's group.
  std::uint32_t packets_of_group() const { return config_.plan->group_of(config_.worker).range.count; }
  bool has_loader() const { return config_.worker < config_.plan->loaders.size(); }
  role_id loader() const { return config_.plan->loaders[config_.worker]; }
  // Returns true if a later step of this layer may complete before an earlier one: its stage runs
  // ahead of its weights.
  bool out_of_turn(const layer_sync& l) const { return l.delay > 0; }

  sync_config config_;
  std::vector<layer_sync> layers_;
  std::vector<tree_node> cover_;
  pending_tasks tasks_;
  residuals kept_;  // encoding errors of encoded gradients
  sums sums_;
  std::uint64_t settling_ = 0;  // flush round; 0: none

 private:
  struct open_step {
    packet_tree<sum_ptr> tree;
    std::size_t left = 0;  // number of cover nodes that have been sent
  };
  // A packet's gradient of one layer on its way to the sum.
  struct packet_of_layer {
    std::uint32_t layer = 0;
    std::uint64_t step = 0;
    tree_node leaf;         // the packets, counted from the first of packets_of_sum()
    std::uint32_t lag = 0;  // gradient::lag
  };

  packet_range packets_of_sum() const;
  bool over(std::uint32_t layer, std::uint64_t step) const;  // all gradients of the layer's step have been sent
  bool block_fits(role_id src, std::uint32_t block, const tensor& value) const;
  bool gradient_fits(const header& h, const gradient& g) const;
  void take_gradient(const header& h, const gradient& g, effects& out);
  void weigh(const packet_of_layer& from, const gradient& g, effects& out);
  void add_packet(const packet_of_layer& from, sum_ptr value, effects& out);
  void step_left(std::uint32_t layer, std::uint64_t step, const sum_ptr& sum, effects& out);
  std::optional<std::uint32_t> first_trained_layer() const;
  void tell_time(std::uint64_t step, const sum_ptr& sum, effects& out);
  void node_done(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out);
  void check_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out);
  void check_flushed(effects& out);

  std::vector<std::map<std::uint64_t, open_step>> open_;  // by layer, step
  std::vector<std::vector<std::uint32_t>> blocks_of_;     // by parameter, in order of `begin`: blocks of this worker's parts
  std::uint64_t flush_at_ = 0;                            // boundary + 1; 0: no flush is in progress
  bool settling_begun_ = false;
  // job_plan::balances: a step begins when the first trained layer has its weights, and is over
  // with the gradient of that layer.
  struct step_clock {
    std::optional<std::uint32_t> layer;  // the first trained layer; none: steps are not timed
    time_point now{}, begun{};
  };
  step_clock clock_;
  struct counted {
    std::vector<std::vector<std::uint64_t>> reads;  // by layer: number of reads that were 0, 1, ... clocks behind
    std::vector<role_status::pushed_bytes> pushed;  // by codec_kind
  };
  counted tally_;
};

}  // namespace troupe
