// Mode `downpour`: asynchronous SGD with a parameter server (Dean et al. 2012, "Large Scale
// Distributed Deep Networks", section 4.1 and Algorithm 7.1).
//
// Worker sync. Each worker is a replica of the model. In each step it computes the gradient of its
// own packets, applies it to its own weights as a plain gradient step (w -= lr g), and adds it to
// the sum of gradients that it has not pushed. Every n_push steps it pushes that sum. Every n_fetch
// steps it fetches the shards' weights, which replace its own.
//
// Shard sync. Applies every push at once with the job's rule (in the paper Adagrad), on the sum
// divided by the worker's packets, in order of arrival. Shards do not communicate with each other.
//
// Groups of several workers (SINGA's Downpour). The workers of a group compute one gradient
// together: they push every step, and a shard waits for all of them, applies their mean and sends
// the block to the group. This is bsp within the group and requires n_push = n_fetch = 1. All
// groups update the same weights in turn.
//
// Messages per worker and block: one push every n_push steps, one fetch and one weights every
// n_fetch steps. Bytes: the block up per push, down per fetch.
//
// Invariants:
//   * every gradient enters one push, and every push is applied once (a second push of a worker's
//     step is dropped); a flush sends the unsent sum;
//   * one worker with n_push = n_fetch = 1 is plain training with the job's rule, bit for bit.
#include "ops/option_specs.hpp"
#include "runtime/sync/centre.hpp"
#include "runtime/sync/clocked.hpp"
#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/local.hpp"
#include "runtime/sync/stock.hpp"

namespace troupe {
namespace {

class downpour_worker final : public local_worker {
 public:
  explicit downpour_worker(sync_config c) : local_worker(std::move(c)), unsent_(layers_.size()) {
    every_push_ = static_cast<std::uint64_t>(config_.mode.integer("n_push"));
    every_fetch_ = static_cast<std::uint64_t>(config_.mode.integer("n_fetch"));
    rule_registry rules;
    add_stock_rules(rules);
    plain_ = rules.find("sgd")->make({});
  }

 private:
  std::shared_ptr<const rule> stepping() const override { return plain_; }

  // Adds the step's sum to the unsent sum. The addition is a task that runs before the step's own
  // task, so the result is complete when on_stepped() sends it.
  void on_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) override {
    if (!sum) return local_worker::on_sum(layer, step, node, sum, out);  // skipped: not finite
    additions due;
    auto& unsent = unsent_[layer];
    unsent = unsent ? plan_addition(unsent, std::make_shared<tensors>(*sum), due) : sum;
    if (!due.empty()) {
      const auto cost = cost_of(due);
      tasks_.run([due = std::move(due)](task_context& c) { run_additions(due, c.dev); }, cost, [](effects&) {}, out);
    }
    local_worker::on_sum(layer, step, node, sum, out);
  }

  void on_stepped(std::uint32_t layer, std::uint64_t step, effects& out) override {
    if ((step + 1) % every_push_ == 0) send_unsent(layer, step + 1, out);
    if ((step + 1) % every_fetch_ == 0)
      fetch_layer(layer, step + 1, out);
    else
      go_on(layer, step + 1, out);
  }

  void send_unsent(std::uint32_t layer, std::uint64_t step, effects& out) {
    if (const auto sum = std::exchange(unsent_[layer], nullptr)) push_layer(layer, step, *sum, out);
  }

  void on_centre(std::uint32_t layer, std::uint64_t step, tensors centre, effects& out) override {
    take_blocks(layer, step, std::move(centre), out);
  }

  void on_flush(std::uint64_t step, effects& out) override {
    for (std::uint32_t l = 0; l < layers_.size(); ++l) send_unsent(l, step, out);
  }

  std::uint64_t every_push_ = 1, every_fetch_ = 1;
  std::shared_ptr<const rule> plain_;
  std::vector<sum_ptr> unsent_;  // by layer
};

class downpour_shard final : public centre_shard {
 public:
  explicit downpour_shard(sync_config c) : centre_shard(std::move(c), {apply_rule::make, replicate::make}) {}

 private:
  void apply(const header& h, const tensor& value, shard_block& b, effects& out) override {
    complete_gradient g{&b, {}, std::make_shared<tensors>(1, value)};
    g.packets = config_.plan->ranges[worker_of(h.src)].count;
    g.step = h.step - 1;
    update_.take(std::move(g), out);
  }
};

bool several(const sync_config& c) { return c.plan->groups[0].count > 1; }

}  // namespace

sync_mode downpour_mode() {
  return {
      .name = "downpour",
      .doc =
          "Asynchronous SGD: each worker trains on its own weights, pushes accumulated gradients every n_push steps and fetches "
          "weights every n_fetch steps. Shards apply each push at once. Dean et al. 2012.",
      .specs = {integer_option("n_push", 1, "number of steps between two pushes", 1),
                integer_option("n_fetch", 1, "number of steps between two fetches", 1)},
      .by_groups = true,
      .left = survivor_rule::newest,
      .check_statistics = [](const options& o, const job_plan&) -> expected<void> {
        if (o.integer("n_push") == 1) return {};
        return unexpected(
            error("the shards cannot fold the statistics of several steps that are pushed as one sum; n_push must be 1"));
      },
      .check =
          [](const options& o, const job_spec&, const job_plan& p) {
            one_centre(p, "downpour");
            if (p.groups[0].count == 1) return;
            for (const char* key : {"n_push", "n_fetch"})
              if (o.integer(key) != 1)
                throw option_error(key, std::string("the workers of a group take every step together: ") + key +
                                            " must be 1 when workers_per_group is " + std::to_string(p.groups[0].count));
          },
      .make_worker = [](sync_config c) -> std::unique_ptr<role> {
        if (several(c)) return std::make_unique<clocked_worker>(std::move(c), clock_policy{});
        return std::make_unique<downpour_worker>(std::move(c));
      },
      .make_shard = [](sync_config c) -> std::unique_ptr<role> {
        if (several(c))
          return std::make_unique<clocked_shard>(std::move(c), clock_policy{},
                                                 update_list{finite_check::make, apply_rule::make, replicate::make});
        return std::make_unique<downpour_shard>(std::move(c));
      }};
}

}  // namespace troupe
