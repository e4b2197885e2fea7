#include "runtime/trace/clock_match.hpp"

#include <cmath>

namespace troupe {

void clock_match::add(time_point asked, time_point theirs, time_point answered) {
  const sample s{answered, asked + (answered - asked) / 2 - theirs, (answered - asked) / 2};
  if (!best_ || s.error <= error_at(answered)) best_ = s;
}

duration clock_match::error_at(time_point now) const {
  if (!best_) return {};
  const auto aged = static_cast<double>((now - best_->at).count()) * drift;
  return best_->error + duration(std::llround(aged));
}

}  // namespace troupe
