// local_sgd: local steps with periodic averaging (Stich 2019, "Local SGD Converges Fast and
// Communicates Little", algorithm 1).
//
// Worker sync: every worker has its own weights and applies the job's rule to its own packets.
// After every `every` steps, layer by layer, it sends its weights, fetches the mean, and continues
// from there. States of the rule stay with the worker.
//
// Shard sync: for each block, stores the received weights. When those of all N workers have
// arrived, the block becomes their mean, added in the workers' order. A fetch for this averaging
// waits until then.
//
// Messages every `every` steps, per worker and block: push, fetch, weights. Bytes: the block in
// each direction. In between: none.
//
// Invariants:
//   * after an averaging all workers have the same weights, bit for bit, for any order of arrival;
//   * a worker's weights enter an averaging once: duplicates are ignored (centre_shard);
//   * one worker equals plain training with the job's rule, bit for bit.
#include "ops/device.hpp"
#include "ops/option_specs.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/sync/centre.hpp"
#include "runtime/sync/local.hpp"
#include "runtime/sync/stock.hpp"

namespace {

using namespace troupe;

class averaging_worker final : public local_worker {
 public:
  explicit averaging_worker(sync_config c)
      : local_worker(std::move(c)), every_(static_cast<std::uint64_t>(config_.mode.integer("every"))) {}

 private:
  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override {
    const auto done = step + 1;
    if (done % every_ != 0) return go_on(layer, done, out);
    push_layer(layer, done, values_of(layer), out);
    fetch_layer(layer, done, out);
  }

  void on_centre(std::uint32_t layer, std::uint64_t done, tensors mean, effects& out) override {
    take_blocks(layer, done, std::move(mean), out);
  }

  // Between two averagings the copies differ: the shards take their mean as the state at the
  // boundary.
  void on_flush(std::uint64_t, effects& out) override { contribute(1.0, out); }

  std::uint64_t every_;
};

class averaging_shard final : public centre_shard {
 public:
  explicit averaging_shard(sync_config c)
      : centre_shard(std::move(c)), sent_(lines_.size()), averaged_(lines_.size(), config_.first_step) {}

 private:
  // The base class passes a worker's push of a step on only once, and handles no other message for
  // the block until done().
  void apply(const header& h, const tensor& value, shard_block& b, effects& out) override {
    auto& sent = sent_[b.plan->id];
    sent[worker_of(h.src)] = value;
    if (sent.size() < workers()) return done(b, out);
    const auto mean = std::make_shared<tensor>(tensor::declare({b.plan->count}, config_.type));
    const task_cost cost{0, 2.0 * static_cast<double>(mean->bytes() * sent.size()), "mean"};
    tasks_.run(
        [mean, copies = std::exchange(sent, {})](task_context& c) {
          mean->back(c.dev);
          c.dev.fill(0, *mean);
          for (const auto& [worker, copy] : copies) c.dev.axpy(1.0 / static_cast<double>(copies.size()), copy, *mean);
        },
        cost,
        [this, &b, mean, step = h.step](effects& more) {
          b.value = *mean;
          ++b.version;
          averaged_[b.plan->id] = step;
          done(b, more);
        },
        out);
  }

  bool hold(const header& h, const shard_block& b) const override { return h.step > averaged_[b.plan->id]; }

  void on_all_flushed(std::uint64_t, effects& out) override { fold_contributions(true, true, out); }

  std::vector<std::map<std::uint32_t, tensor>> sent_;  // by block id and worker; added in the order of workers
  std::vector<std::uint64_t> averaged_;                // by block id: the step of the last averaging
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  t.modes.add({.name = "local_sgd",
               .doc = "Workers train independently and average their weights every `every` steps. Stich 2019.",
               .specs = {integer_option("every", 10, "local steps between two averagings", 1)},
               .check = [](const options&, const job_spec&, const job_plan& p) { one_centre(p, "local_sgd"); },
               .make_worker = [](sync_config c) { return std::make_unique<averaging_worker>(std::move(c)); },
               .make_shard = [](sync_config c) { return std::make_unique<averaging_shard>(std::move(c)); }});
}
