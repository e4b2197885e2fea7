#include "runtime/node/simulation/recovery_log.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sim {

const recovery* recovery_log::take(const control::order& o, time_point now) {
  const auto* f = std::get_if<control::followed_event>(&o);
  if (!f) return nullptr;
  const auto& e = f->what.event;
  if (const auto* done = e.as<recovered_event>()) {
    recovery r{*done, e.step, std::nullopt, now - duration(std::llround(1e6 * done->ms)), now, std::nullopt};
    const auto after = std::upper_bound(faults_.begin(), faults_.end(), r.noticed);
    if (after != faults_.begin()) r.failed = *std::prev(after);
    faults_.erase(faults_.begin(), after);
    all_.push_back(std::move(r));
  } else if (!all_.empty() && !all_.back().stepped && (e.is<step_event>() || ends_job(e))) {
    all_.back().stepped = now;
    return &all_.back();
  }
  return nullptr;
}

}  // namespace troupe::sim
