#include "runtime/reduce/summing.hpp"

#include "ops/device.hpp"

namespace troupe {

// Reads only shape and type of *left: a task that was planned earlier may be setting its memory at
// the same time.
sum_ptr plan_addition(const sum_ptr& left, const sum_ptr& right, additions& due) {
  auto out = std::make_shared<tensors>(left->size());
  for (std::size_t i = 0; i < left->size(); ++i)
    if (const auto& t = (*left)[i]) (*out)[i] = tensor::declare(t.dims(), t.type());
  if (due.empty()) due.reserve(4);
  due.push_back({left, right, out});
  return out;
}

void run_additions(const additions& due, device& d) {
  for (const auto& a : due) {
    for (std::size_t i = 0; i < a.out->size(); ++i) {
      auto& sum = (*a.out)[i];
      if (!sum) continue;
      // Adds in the memory of an addend that no other handle refers to: the same bits as a separate
      // sum, with one stream of memory less.
      auto &left = (*a.left)[i], &right = (*a.right)[i];
      if (reclaim(d, left)) {
        d.axpy(1.0, right, left);
        sum.take_memory(left);
      } else if (reclaim(d, right)) {
        d.axpy(1.0, left, right);
        sum.take_memory(right);
      } else {
        sum.back(d);
        d.apply(binary::add, left, right, sum);
      }
    }
  }
}

task_cost cost_of(const additions& due) {
  task_cost c{0, 0, "add"};
  for (const auto& a : due)
    for (const auto& t : *a.out) c.bytes += t ? 3.0 * static_cast<double>(t.bytes()) : 0.0;
  return c;
}

}  // namespace troupe
