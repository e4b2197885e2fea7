// The worker sync of modes whose workers have their own weights and apply the update rule
// themselves: downpour, easgd, eamsgd, hogwild, gossip. The mode decides when workers exchange
// weights, and how.
//
// Per layer and step: the sum over this worker's packets -> one step of the update rule on the
// worker's own copy (a task) -> on_stepped(), where the mode exchanges, waits, or continues at once
// with go_on(), which hands the stage version step + 1.
//
// Invariant: a layer's copy is changed by one task at a time; other changes wait until it has
// finished (`busy_`).
#pragma once

#include "runtime/sync/worker_sync.hpp"

namespace troupe {

class local_worker : public worker_sync {
 protected:
  struct replica {  // the worker's copy of one whole parameter
    tensor value;
    tensors rule;
    std::uint64_t updates = 0;
  };
  explicit local_worker(sync_config c);

  // The rule has been applied for step `step` of the layer; its copy has version step + 1.
  virtual void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) { go_on(layer, step + 1, out); }
  // The rule that the worker applies; by default the job's.
  virtual std::shared_ptr<const rule> stepping() const { return config_.update; }
  // The first values of a layer have arrived; it is at version `step`.
  virtual void on_begun(std::uint32_t layer, std::uint64_t step, effects& out) { go_on(layer, step, out); }

  // Hands the layer's copy to its stage as `version`: step `version` may begin.
  void go_on(std::uint32_t layer, std::uint64_t version, effects& out);
  // Decides whether an exchange is due after `done` steps: by the job's sync condition (`when`),
  // else every `habit` steps. Answers with on_due(), which may follow later if the condition needs
  // the drift of all weights.
  void ask_due(std::uint32_t layer, std::uint64_t done, std::uint64_t habit, effects& out);
  virtual void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) { (void)due, go_on(layer, done, out); }
  // The layer's exchange is complete: drift is measured from its present weights.
  void exchanged(std::uint32_t layer);
  // A task that changed the layer's copy has finished. Calls on_free(), then starts the step that
  // waited for the task, or calls on_idle() if there is none.
  void release(std::uint32_t layer, effects& out);
  virtual void on_free(std::uint32_t layer, effects& out) { (void)layer, (void)out; }
  virtual void on_idle(std::uint32_t layer, effects& out) { (void)layer, (void)out; }
  // This worker's copy of a block with its rule states; `mass` is its weight in a mean.
  state copy_of(std::uint32_t block, double mass) const;
  // At a flush: sends copies of all blocks to the shards.
  void contribute(double mass, effects& out);
  // Fetches all blocks of a layer; on_centre() follows when the last has arrived. One fetch at a
  // time per layer.
  void fetch_layer(std::uint32_t layer, std::uint64_t step, effects& out);
  // `blocks`: the shards' values, in the order of layers_[layer].blocks.
  virtual void on_centre(std::uint32_t layer, std::uint64_t step, tensors blocks, effects& out) {
    (void)layer, (void)step, (void)blocks, (void)out;
  }
  // Replaces the layer's copy by `blocks` (in the order of layers_[layer].blocks) and continues at
  // `version`. A task assembles parameters that are cut into several blocks. The usual body of
  // on_centre().
  void take_blocks(std::uint32_t layer, std::uint64_t version, tensors blocks, effects& out);
  // Pushes `values` (whole parameters of the layer), cut into blocks, with header.step = `step`.
  void push_layer(std::uint32_t layer, std::uint64_t step, const tensors& values, effects& out);
  // For tasks: assembles the parameters `params` in `wholes` (declared tensors) from the values of
  // the blocks `ids`.
  static void join_blocks(device& d, const job_plan& plan, const std::vector<std::uint32_t>& params,
                          const std::vector<std::uint32_t>& ids, const tensors& values, tensors& wholes);
  tensors values_of(std::uint32_t layer) const;

  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override;
  void on_weights(const header& h, const weights& w, effects& out) override;
  void on_state(const header& h, const state& s, effects& out) override;

  std::vector<replica> replicas_;  // by parameter
  std::vector<bool> busy_;         // by layer: a task changes its copy

 private:
  struct question {
    std::uint64_t step = 0;
    std::size_t missing = 0;
    tensors blocks;
    bool open = false;
  };
  void begin_layer(std::uint32_t layer, effects& out);
  void measure_drift(std::uint64_t done, effects& out);
  void decide(std::uint64_t done, double drift);
  void take_step(std::uint32_t layer, std::uint64_t step, const sum_ptr& sum, effects& out);

  std::vector<std::map<std::uint32_t, state>> first_;  // by layer, block: first values, until all have arrived
  std::uint64_t begin_at_ = 0;
  std::vector<question> questions_;                // by layer
  std::uint64_t decided_ = 0, last_exchange_ = 0;  // numbers of steps
  bool due_ = false;                               // the decision after `decided_` steps
  tensors base_;                                   // by parameter, if drift is measured: the weights after the last exchange
  std::vector<std::uint32_t> asking_;              // layers that wait for the drift
  std::vector<std::optional<std::pair<std::uint64_t, sum_ptr>>> deferred_;  // by layer: a step (and its sum) that waits for a task

 protected:
  std::vector<std::uint64_t> last_merge_;  // by layer: step of the last exchange with others; staleness is counted from it
};

}  // namespace troupe
