// The times of a worker's steps, for job_plan::balances.
#include <algorithm>

#include "ops/device.hpp"
#include "runtime/sync/worker_sync.hpp"

namespace troupe {

std::optional<std::uint32_t> worker_sync::first_trained_layer() const {
  for (std::uint32_t l = 0; l < layers_.size(); ++l)
    if (std::any_of(layers_[l].params.begin(), layers_[l].params.end(),
                    [&](const part_of& p) { return config_.graph->params[p.param].spec.trainable; }))
      return l;
  return std::nullopt;
}

// A device with queues computes the gradient later than its message arrives. A task that reads one
// element of it is over when the gradient is there.
void worker_sync::tell_time(std::uint64_t step, const sum_ptr& sum, effects& out) {
  tasks_.run(
      [sum](task_context& c) {
        for (const auto& t : *sum)
          if (t.backed() && t.count() > 0) return c.dev.later(t.slice(0, {1}), [](double) {});
      },
      {0, 0, "time"},
      [this, step, begun = clock_.begun](effects& more) {
        auto h = to(config_.coordinator);
        h.step = step;
        more.send({h, step_time{seconds_of(clock_.now - begun)}});
      },
      out);
}

}  // namespace troupe
