// Checks of workers for gradients that are not finite: of workers that apply the rule themselves,
// and of those that lay their own sums over weights.
#include <algorithm>

#include "runtime/sync/clocked.hpp"
#include "runtime/sync/looking.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

// If workers push gradients, the shards check them, because they have the whole sum.
void worker_sync::pass_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) {
  if (sums_ != sums::whole || config_.max_skipped == 0) return on_sum(layer, step, node, sum, out);
  const auto bad = std::make_shared<std::vector<std::uint32_t>>();
  task_cost cost{0, 0, "look"};
  for (const auto& t : *sum) cost.bytes += t ? static_cast<double>(t.bytes()) : 0.0;
  tasks_.run([sum, bad, params = layer_at(layer).params](task_context& c) { look_at_sum(c.dev, params, *sum, bad); }, cost,
             [this, layer, step, node, sum, bad](effects& more) {
               if (!bad->empty()) tell_not_finite(layer, step, *bad, more);
               on_sum(layer, step, node, bad->empty() ? sum : nullptr, more);
             },
             out);
}

void worker_sync::tell_not_finite(std::uint32_t layer, std::uint64_t step, const std::vector<std::uint32_t>& params,
                                  effects& out) const {
  nonfinite_report f{config_.worker, {}};
  for (auto id : layers_[layer].blocks)
    if (std::find(params.begin(), params.end(), block_at(id).param) != params.end()) f.bad.push_back(id);
  auto h = to(config_.coordinator);
  h.step = step;
  out.send({h, std::move(f)});
}

// A sum that the shards will skip must not be laid over the weights. The layer waits for the check,
// because the worker reads its own writes.
void clocked_worker::keep_own(std::uint32_t layer, own_sum own, effects& out) {
  own_[layer].push_back(own);
  if (config_.max_skipped == 0) return;
  ++looking_[layer];
  const auto bad = std::make_shared<std::vector<std::uint32_t>>();
  std::vector<std::uint32_t> params;
  task_cost cost{0, 0, "look"};
  for (const auto& p : layers_[layer].params) params.push_back(p.param);
  for (const auto& t : *own.sum) cost.bytes += t ? static_cast<double>(t.bytes()) : 0.0;
  tasks_.run([sum = own.sum, bad, params](task_context& c) { look_at_sum(c.dev, params, *sum, bad); }, cost,
             [this, layer, step = own.step, node = own.node, bad](effects& more) {
               --looking_[layer];
               if (!bad->empty())
                 std::erase_if(own_[layer], [&](const own_sum& o) { return o.step == step && o.node.first == node.first; });
               try_hand(layer, more);
             },
             out);
}

}  // namespace troupe
