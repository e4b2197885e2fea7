// Checks of gradients that are not finite by workers that apply the rule themselves.
#include <algorithm>

#include "runtime/sync/looking.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

// If workers push gradients, the shards check them, because they have the whole sum.
void worker_sync::check_sum(std::uint32_t layer, std::uint64_t step, tree_node node, const sum_ptr& sum, effects& out) {
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

}  // namespace troupe
