// Modes whose workers have weights of their own and step by themselves: downpour, easgd, eamsgd,
// hogwild, gossip. What they do to each other's weights, and when, is the mode.
//
// Per layer and step: the sum of this worker's packets -> one step of the update rule on the
// worker's own copy (a task) -> on_stepped(), where the mode exchanges, waits, or goes on at once
// with go_on(): the stage gets version step + 1.
// Invariant: a layer's copy is changed by one task at a time; what comes meanwhile waits in the
// mode (`busy`).
#pragma once

#include "runtime/sync/worker_sync.hpp"

namespace troupe {

class local_worker : public worker_sync {
 protected:
  struct replica {  // of one whole parameter
    tensor value;
    tensors rule;
    std::uint64_t updates = 0;
  };
  explicit local_worker(sync_config c);

  // The layer has made step `step`; its copy is now of version step + 1.
  virtual void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) { go_on(layer, step + 1, out); }
  // The rule the worker steps with; by default the job's.
  virtual std::shared_ptr<const rule> stepping() const { return config_.update; }
  // The first values (or those after a restart) of a layer are here; it is at version `step`.
  virtual void on_begun(std::uint32_t layer, std::uint64_t step, effects& out) { go_on(layer, step, out); }

  void go_on(std::uint32_t layer, std::uint64_t version, effects& out);
  // Is an exchange due, now that `done` steps are made? By the job's condition (`when`), or every
  // `habit` steps; answered by on_due(), later where the condition wants to know how far all
  // weights have moved.
  void ask_due(std::uint32_t layer, std::uint64_t done, std::uint64_t habit, effects& out);
  virtual void on_due(std::uint32_t layer, std::uint64_t done, bool due, effects& out) { (void)due, go_on(layer, done, out); }
  // The layer's exchange is over: drift is counted from the weights it has now.
  void exchanged(std::uint32_t layer);
  // A task that changed the layer's copy is over: on_free(), then a step that waited for it begins,
  // else on_idle().
  void release(std::uint32_t layer, effects& out);
  virtual void on_free(std::uint32_t layer, effects& out) { (void)layer, (void)out; }
  virtual void on_idle(std::uint32_t layer, effects& out) { (void)layer, (void)out; }
  // When settling: our copies (and the states of our rule) to the shards, with what they count.
  void contribute(double mass, effects& out);
  // Questions to all shards of a layer; on_centre() when the last has answered. One at a time per
  // layer.
  void fetch_layer(std::uint32_t layer, std::uint64_t step, effects& out);
  // `blocks` as the shards have them, in the order of layers_[layer].blocks.
  virtual void on_centre(std::uint32_t layer, std::uint64_t step, tensors blocks, effects& out) {
    (void)layer, (void)step, (void)blocks, (void)out;
  }
  // The layer's copy becomes `blocks` (in the order of layers_[layer].blocks) and the layer goes on
  // at `version`; a task puts cut parameters together. What on_centre() mostly wants.
  void take_blocks(std::uint32_t layer, std::uint64_t version, tensors blocks, effects& out);
  // Sends `values` (whole parameters of the layer) cut into blocks, as pushes of step `step`.
  void push_layer(std::uint32_t layer, std::uint64_t step, const tensors& values, effects& out);
  // For tasks: the parameters `params` from the blocks `ids`, with these values, that they are cut
  // into; `wholes` are declared.
  static void join_blocks(device& d, const job_plan& plan, const std::vector<std::uint32_t>& params,
                          const std::vector<std::uint32_t>& ids, const tensors& values, tensors& wholes);
  tensors values_of(std::uint32_t layer) const;

  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override;
  void on_weights(const header& h, const weights& w, effects& out) override;
  void on_state(const header& h, const state& s, effects& out) override;
  void on_joined(std::uint64_t step, effects& out) override;

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

  std::vector<std::map<std::uint32_t, state>> first_;  // by layer, block: until all are here
  std::uint64_t begin_at_ = 0;
  std::vector<question> questions_;                // by layer
  std::uint64_t decided_ = 0, last_exchange_ = 0;  // steps
  bool due_ = false;
  tensors base_;                       // by parameter, where drift is measured: the weights after the last exchange
  std::vector<std::uint32_t> asking_;  // layers that wait for the drift
  std::vector<std::optional<std::pair<std::uint64_t, sum_ptr>>> deferred_;  // by layer: a step whose gradient is here

 protected:
  std::vector<std::uint64_t> last_merge_;  // by layer: the step at which it last heard of the others; reads are counted from there
};

}  // namespace troupe
