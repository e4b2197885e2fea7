#include "runtime/sync/worker_copies.hpp"

#include <algorithm>

#include "ops/device.hpp"

namespace troupe {

void fold_copies(const shard_parts& p, const worker_copies& all, bool mean_states, bool mean_values, effects& out) {
  const auto states_of_rule = p.config.update->states().size();
  for (auto& b : p.blocks.list()) {
    const auto at = all.find(b.plan->id);
    if (at == all.end() || at->second.empty()) continue;
    const auto& from = at->second;
    double total = 0;
    for (const auto& [worker, c] : from) {
      total += c.mass;
      b.updates = std::max(b.updates, c.updates);
    }
    const auto copies = std::make_shared<std::map<std::uint32_t, state>>(from);
    if (total == 0) {  // all mass is in flight between workers: take the plain mean
      for (auto& [worker, c] : *copies) c.mass = 1;
      total = static_cast<double>(copies->size());
    }
    // Uses new tensors: an update of the block may still be running.
    const auto value = std::make_shared<tensor>(tensor::declare({b.plan->count}, p.config.type));
    const auto states = std::make_shared<tensors>(states_of_rule, tensor::declare({b.plan->count}, p.config.type));
    const auto cost = static_cast<double>(value->bytes() * from.size() * (1 + states_of_rule));
    p.tasks.run(
        [value, states, copies, total, mean_states, mean_values,
         frozen = p.config.graph->params[b.plan->param].frozen](task_context& c) {
          const auto fold = [&](tensor& to, auto part_of) {
            to.back(c.dev);
            if (frozen) return c.dev.copy(part_of(copies->begin()->second), to);  // all copies are equal
            c.dev.fill(0, to);
            for (const auto& [worker, copy] : *copies) c.dev.axpy(copy.mass / total, part_of(copy), to);
          };
          if (mean_values) fold(*value, [](const state& s) { return s.value; });
          for (std::size_t k = 0; mean_states && k < states->size(); ++k)
            fold((*states)[k], [k](const state& s) { return s.rule.at(k); });
        },
        {0, cost, "mean"},
        [&b, value, states, mean_states, mean_values](effects&) {
          if (mean_values) b.value = *value;
          if (mean_states) *b.rule = *states;
        },
        out);
  }
}

}  // namespace troupe
