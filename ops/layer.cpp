#include "ops/layer.hpp"

#include <algorithm>

namespace troupe {

// Most layers have no state per plan.
std::unique_ptr<plan> layer::prepare(device& d, const shapes& in, phase ph, dtype t) const {
  (void)d, (void)in, (void)ph, (void)t;
  return std::make_unique<plan>();
}

holding layer::holds(std::size_t input, const shapes& in) const {
  (void)in;
  const bool judged = input == 0 && (is_loss() || is_metric());
  return judged || differentiable(input) ? holding::values : holding::ids;
}

std::int64_t layer::ids_below(std::size_t input, const shapes& in) const {
  if (!(is_loss() || is_metric()) || input == 0 || in[0].rank() < 2) return 0;
  return in[0].count_from(std::min(in[input].rank(), in[0].rank()));
}

}  // namespace troupe
