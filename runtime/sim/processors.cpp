#include "runtime/sim/processors.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sim {

duration processors::time_of(const task_cost& c) const {
  double s = 0;
  if (model_.flops_per_second > 0) s += c.flops / model_.flops_per_second;
  if (model_.bytes_per_second > 0) s += c.bytes / model_.bytes_per_second;
  return model_.floor + duration(static_cast<std::int64_t>(1e9 * s));
}

duration processors::drawn(std::uint32_t node, duration time, fault_counts& counts) {
  double factor = 1;
  if (model_.kind != straggle::none && (model_.probability >= 1 || random_.chance(model_.probability))) {
    factor =
        model_.kind == straggle::lognormal ? std::exp(model_.spread * random_.normal()) : 1 + model_.spread * random_.exponential();
    ++counts.straggled;
  }
  if (!model_.slow.empty()) {
    if (slow_.empty())
      for (const auto& [n, f] : model_.slow) {
        if (n >= slow_.size()) slow_.resize(n + 1, 1.0);
        slow_[n] *= f;
      }
    if (node < slow_.size()) factor *= slow_[node];
  }
  return factor == 1 ? time : duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

std::vector<time_point>& processors::cores_of(std::uint32_t node) {
  if (node >= cores_.size()) cores_.resize(node + 1);
  if (cores_[node].empty()) cores_[node].assign(std::max(model_.cores, 1u), time_point{});
  return cores_[node];
}

processors::turn processors::run(std::uint32_t node, duration time, time_point now) {
  auto& cores = cores_of(node);
  auto& core = *std::min_element(cores.begin(), cores.end());
  const auto begin = std::max(core, now);
  core = begin + time;
  return {begin, core};
}

void processors::clear(std::uint32_t node, time_point now) {
  for (auto& c : cores_of(node)) c = now;
}

}  // namespace troupe::sim
